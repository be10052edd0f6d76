#!/usr/bin/env bash
# Compiles kernels for a GPU: nvcc_check.sh <nvcc> <source folder> <file.cu>...
# None may spill registers. Kernels come in pairs, with 16-byte accesses and for rows that
# these do not divide: at least half of a file's kernels must have them.
set -euo pipefail

nvcc=$1 source=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for file in "$@"; do
  "$nvcc" -std=c++20 -arch=sm_90 -O3 -Xptxas -v,-warn-spills --Werror all-warnings \
    --keep --keep-dir "$work" -I"$source/src" -I"$source/include" \
    -c "$file" -o "$work/object.o" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
  if grep -E '[1-9][0-9]* bytes spill' "$work/log"; then
    echo "$file: registers are spilled"
    exit 1
  fi
  read -r wide all < <(awk '
    /\.entry/ { ++all; counted = 0 }
    /ld\.global\.(nc\.)?(v4\.[bfsu]32|v2\.[bfsu]64)/ && !counted { ++wide; counted = 1 }
    END { print wide + 0, all + 0 }' "$work/$(basename "$file" .cu).ptx")
  registers=$(grep -oE 'Used [0-9]+ registers' "$work/log" | sort -k2n | tail -1)
  echo "$file: $all kernels, $wide with 16-byte reads; ${registers,} at most; no spills"
  if ((all == 0 || 2 * wide < all)); then
    echo "$file: too few kernels read 16 bytes at once"
    exit 1
  fi
done
