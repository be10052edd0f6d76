#!/bin/sh
# Installs the Debian packages that building, testing and the quickstart need; does nothing when
# all are there.
set -eu

packages="
  g++ cmake ninja-build ccache make
  openmpi-bin libopenmpi-dev
  libhdf5-dev hdf5-tools libboost-program-options-dev libdnnl-dev libxxhash-dev
  libgtest-dev libbenchmark-dev
  bible-kjv xxhash python3-h5py"

missing=""
for package in $packages; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
    missing="$missing $package"
done
[ -n "$missing" ] || exit 0

echo "installing:$missing"
sudo=""
[ "$(id -u)" = 0 ] || sudo=sudo
$sudo apt-get update -q
# shellcheck disable=SC2086  # a list of words
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing
