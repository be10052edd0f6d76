#!/bin/sh
# make-corpus.sh OUTPUT: writes the King James Bible of Debian's package bible-kjv as plain text,
# one verse a line (4.4 MB).
set -eu

output=$1
[ -s "$output" ] && exit 0
mkdir -p "$(dirname "$output")"
# -f: verse references in front of every line, no folding.
bible -f 'Gen1:1-Rev22:21' < /dev/null > "$output.partial"
mv "$output.partial" "$output"
