#!/usr/bin/env bash
# The tests of WebGPU programs need an adapter. On Linux that is Mesa's lavapipe, a GPU in software;
# this installs it where it is missing and where that is allowed. macOS has Metal (untested).
set -euo pipefail

[ "$(uname -s)" = Linux ] || exit 0

present() {
    compgen -G '/usr/share/vulkan/icd.d/lvp_icd*.json' >/dev/null &&
        [[ $(ldconfig -p) == *libvulkan.so.1* ]]
}

present && exit 0

if ! command -v apt-get >/dev/null; then
    echo "The tests need Mesa's lavapipe and the Vulkan loader; install them with your package manager."
    exit 1
fi
if [ "$(id -u)" = 0 ]; then
    as_root=()
elif sudo -n true 2>/dev/null; then
    as_root=(sudo -n)
else
    echo "The tests need Mesa's lavapipe: sudo apt-get install mesa-vulkan-drivers libvulkan1"
    exit 1
fi

echo "Installing Mesa's lavapipe (mesa-vulkan-drivers libvulkan1; once)"
export DEBIAN_FRONTEND=noninteractive
install=("${as_root[@]}" apt-get install --yes --quiet --quiet --no-install-recommends
    mesa-vulkan-drivers libvulkan1)
# Package lists may be missing or old.
"${install[@]}" >/dev/null 2>&1 || {
    "${as_root[@]}" apt-get update --quiet --quiet
    "${install[@]}" >/dev/null
}
present || {
    echo "mesa-vulkan-drivers is installed, and still there is no lavapipe."
    exit 1
}
