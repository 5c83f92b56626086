#!/usr/bin/env bash
# ensure_arm64.sh FOLDER PYTHON: a Python for 64-bit ARM in FOLDER that runs here, for the tests of programs that
# are compiled for such machines: FOLDER/python takes arguments as python does. It is made of QEMU (user mode), of
# Debian's packages for arm64, and of the wheels that the runtime needs, in the versions of requirements/dev.lock,
# which PYTHON's pip downloads. Nothing is installed: packages are unpacked into FOLDER, with lists of their own, so
# that it needs no root. Linux on x86-64 with apt-get only. 90 MB stay of the 190 MB that are downloaded.
set -euo pipefail
folder=$1
python=$2
lock=$(dirname "$0")/../requirements/dev.lock

stop() {
    echo "The tests of programs for 64-bit ARM need a Python of that kind, which QEMU runs: $1"
    exit 1
}

[ "$(uname -sm)" = "Linux x86_64" ] || stop "this script makes one on Linux on x86-64 alone."
for needed in apt-get dpkg-deb; do
    command -v "$needed" >/dev/null || stop "there is no $needed here."
done

rm -rf "$folder"
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
work=$folder/work
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/state/lists/partial" "$work/debs/partial" "$work/wheels"
touch "$work/state/status"

# apt_for ARCHITECTURE ...: apt-get as if nothing were installed, beside the system's own.
apt_for() {
    local architecture=$1
    shift
    apt-get --quiet --quiet --yes \
        -o "APT::Architecture=$architecture" -o "APT::Architectures=$architecture" \
        -o "Dir::State=$work/state" -o "Dir::State::lists=$work/state/lists" \
        -o "Dir::State::status=$work/state/status" \
        -o "Dir::Cache=$work" -o "Dir::Cache::archives=$work/debs" \
        -o Debug::NoLocking=1 -o APT::Install-Recommends=0 -o APT::Sandbox::User= \
        -o Acquire::Languages=none "$@" >/dev/null
}

apt_for arm64 update || stop "apt-get, whose errors stand above, found no packages for arm64."
apt_for arm64 --download-only install python3-minimal libpython3-stdlib libstdc++6
for package in "$work"/debs/*.deb; do
    dpkg-deb --extract "$package" "$folder/root"
done

qemu=$(command -v qemu-aarch64-static qemu-aarch64 | head -n 1 || true)
if [ -z "$qemu" ]; then
    (cd "$work" && apt-get --quiet --quiet -o APT::Sandbox::User= download qemu-user-static) ||
        { apt_for amd64 update && (cd "$work/debs" && apt_for amd64 download qemu-user-static && mv qemu-*.deb ..); }
    dpkg-deb --fsys-tarfile "$work"/qemu-user-static_*.deb |
        tar --extract --directory "$folder" --strip-components=3 ./usr/bin/qemu-aarch64-static
    qemu=$folder/qemu-aarch64-static
fi

interpreter=$(find "$folder/root/usr/bin" -name 'python3.*' -type f | head -n 1)
version=${interpreter##*python}
packages=$(grep --extended-regexp '^(numpy|apache-tvm|apache-tvm-ffi|tokenizers|typing_extensions)==' "$lock")
platforms=(--platform manylinux_2_28_aarch64 --platform manylinux_2_17_aarch64 --platform manylinux2014_aarch64)
# shellcheck disable=SC2086 # several names
"$python" -m pip download --quiet --no-deps --only-binary=:all: --dest "$work/wheels" \
    "${platforms[@]}" --python-version "$version" $packages
"$python" - "$work/wheels" "$folder/site" <<'PYTHON'
"""Unpack wheels; of TVM only its runtime, as edgewise-light has it."""
import sys
import zipfile
from pathlib import Path

for path in sorted(Path(sys.argv[1]).glob("*.whl")):
    with zipfile.ZipFile(path) as wheel:
        names = None
        if path.name.startswith("apache_tvm-"):
            names = ["tvm/lib/libtvm_runtime.so"]
        wheel.extractall(sys.argv[2], names)
PYTHON

cat >"$folder/python" <<SHELL
#!/bin/sh
exec "$qemu" -L "$folder/root" \\
    -E "PYTHONPATH=$folder/site:\${PYTHONPATH:-}" \\
    -E "LD_LIBRARY_PATH=$folder/root/usr/lib/aarch64-linux-gnu" \\
    "$interpreter" "\$@"
SHELL
chmod +x "$folder/python"
"$folder/python" -c 'import numpy, platform, tvm_ffi; assert platform.machine() == "aarch64"' ||
    stop "what was made of it, in $folder, does not run."
