#!/usr/bin/env bash
# ensure_packages.sh [node]: what the tests need beside Python packages: Mesa's lavapipe, a GPU in software,
# with the Vulkan loader and the Khronos validation layer; spirv-val, which checks SPIR-V; g++ for the emulator
# of GPUs; Node with npm for web/ and the shader checker; Chromium for the tests in a browser, with a C compiler
# for what they preload into it. With `node`, only Node, which builds the web app. Installs what is missing where
# that is allowed, and otherwise says what to install. macOS has Metal and needs only Node and Chrome there, but
# for the tests of Vulkan (untested).
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin # ldconfig, which users may not have on theirs

NODE=20 # the oldest version that web/ runs on
wanted=${1:-all}
case $wanted in
node) needs="The web app needs Node $NODE or newer with npm to be built." ;;
*) needs="The tests need Mesa's lavapipe, the Vulkan loader with its validation layer, spirv-val, gcc and g++, Chromium, and Node $NODE or newer with npm." ;;
esac

lavapipe() {
    local folder
    for folder in /usr/share /usr/local/share /etc; do
        compgen -G "$folder/vulkan/icd.d/lvp_icd*.json" >/dev/null && return
    done
    return 1
}

vulkan_loader() {
    [[ $(ldconfig -p) == *libvulkan.so.1* ]]
}

validation_layer() {
    local folder
    for folder in /usr/share /usr/local/share /etc; do
        [ -e "$folder/vulkan/explicit_layer.d/VkLayer_khronos_validation.json" ] && return
    done
    return 1
}

node_with_npm() {
    command -v npm >/dev/null &&
        node -e "process.exit(parseInt(process.versions.node) < $NODE ? 1 : 0)"
}

browser() {
    [ -n "${EDGEWISE_CHROMIUM:-}" ] || # web/tests/browser/launch.ts looks for the same names
        command -v chromium chromium-browser google-chrome google-chrome-stable >/dev/null
}

c_compiler() {
    echo 'int main(void) { return 0; }' | gcc -x c -o /dev/null - 2>/dev/null
}

cpp_compiler() {
    echo '#include <cmath>' | "${CXX:-g++}" -x c++ -fsyntax-only - 2>/dev/null
}

missing_packages() {
    if [ "$wanted" != node ] && [ "$(uname -s)" = Linux ]; then
        lavapipe || echo mesa-vulkan-drivers
        vulkan_loader || echo libvulkan1
        validation_layer || echo vulkan-validationlayers
        command -v spirv-val >/dev/null || echo spirv-tools
        c_compiler || echo gcc libc6-dev
        cpp_compiler || echo g++
        browser || echo chromium
    fi
    node_with_npm || echo nodejs npm
}

packages=$(missing_packages | xargs)
[ -n "$packages" ] || exit 0

stop() {
    echo "$needs"
    echo "$1 $packages"
    exit 1
}

if ! command -v apt-get >/dev/null; then
    stop "Install what is missing with your package manager. Debian calls it"
elif [ "$(id -u)" = 0 ]; then
    as_root=()
elif sudo -n true 2>/dev/null; then
    as_root=(sudo -n)
else
    stop "Some of it is missing. Run: sudo apt-get install"
fi

echo "Installing with apt-get: $packages (once)"
apt() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get --quiet --quiet --yes "$@" >/dev/null
}
install() {
    # shellcheck disable=SC2086 # several names
    apt install --no-install-recommends $packages
}
# Lists of packages may be missing or old.
install 2>/dev/null || { apt update && install; } || stop "apt-get, whose errors stand above, could not install"
packages=$(missing_packages | xargs)
[ -z "$packages" ] || stop "Installed, and still not what is needed:"
