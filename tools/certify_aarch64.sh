#!/usr/bin/env bash
# The whole certificate on aarch64, without such a machine: cross-builds the library, and runs
# `gradplan certify` under qemu-user with Debian's arm64 Python. Everything is below build/aarch64,
# except the cross compiler and qemu, which are installed if they are missing. Needs Debian's apt.
#
#   certify_aarch64.sh PYTHON CMAKE    of an environment with pip and ninja
set -euo pipefail
python="$(realpath --no-symlinks "$1")" cmake="$(realpath --no-symlinks "$2")"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
here="$PWD/build/aarch64"
root="${here}/root" site="${here}/site" package="${here}/package" log="${here}/log"
arm="${here}/python"
mkdir -p "${here}"

say() { echo "== aarch64: $*"; }

# Runs a command whose output matters only if it fails.
quietly() {
  "$@" > "${log}" 2>&1 || { cat "${log}"; say "failed: $*"; exit 1; }
}

command -v apt-get > /dev/null || { say "needs apt-get, that is, Debian or Ubuntu"; exit 1; }

if ! command -v aarch64-linux-gnu-g++ > /dev/null || ! command -v qemu-aarch64-static > /dev/null; then
  say "installing the cross compiler and qemu"
  as_root="$([ "$(id -u)" = 0 ] || echo sudo)"
  quietly ${as_root} apt-get update
  quietly ${as_root} apt-get install -y --no-install-recommends g++-aarch64-linux-gnu qemu-user-static
fi

# An apt of its own, which knows nothing but arm64 and has nothing installed: so it fetches Python
# with all that it needs, and the machine's packages stay as they are.
if [ ! -e "${root}/complete" ]; then
  say "fetching Debian's arm64 Python"
  rm -rf "${root}" "${here}/apt"
  mkdir -p "${root}" "${here}/apt/state/lists/partial" "${here}/apt/cache/archives/partial"
  : > "${here}/apt/state/status"
  apt=(apt-get -y
    -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Install-Recommends=false
    -o APT::Sandbox::User=root
    -o Dir::State="${here}/apt/state" -o Dir::State::status="${here}/apt/state/status"
    -o Dir::Cache="${here}/apt/cache" -o Debug::NoLocking=true)
  quietly "${apt[@]}" update
  quietly "${apt[@]}" --download-only install python3 libstdc++6
  for package_file in "${here}"/apt/cache/archives/*.deb; do dpkg -x "${package_file}" "${root}"; done
  rm -rf "${here}/apt"
  touch "${root}/complete"
fi

interpreter="$(find "${root}/usr/bin" -name 'python3.*' -type f | head -1)"
version="${interpreter##*/python}"
cat > "${arm}" << EOF
#!/bin/sh
exec qemu-aarch64-static -L '${root}' '${interpreter}' "\$@"
EOF
chmod +x "${arm}"
export PYTHONPATH="${package}:${site}" PYTHONDONTWRITEBYTECODE=1 PYTHONNOUSERSITE=1

if [ ! -e "${site}/complete" ]; then
  say "fetching wheels for its Python ${version}"
  rm -rf "${site}"
  "${arm}" -c 'import tomllib
print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")' \
    > "${here}/requirements"
  quietly env -u PYTHONPATH "${python}" -m pip --disable-pip-version-check install --target "${site}" \
    --only-binary=:all: --implementation cp --python-version "${version}" \
    --platform manylinux_2_28_aarch64 --platform manylinux2014_aarch64 \
    --requirement "${here}/requirements"
  touch "${site}/complete"
fi

say "cross-building"
PATH="$(dirname "${cmake}"):${PATH}" quietly "${cmake}" -G Ninja -S . -B "${here}/cmake" \
  -DCMAKE_BUILD_TYPE=Release -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
  -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ \
  -DPython_EXECUTABLE="${arm}"
PATH="$(dirname "${cmake}"):${PATH}" "${cmake}" --build "${here}/cmake" \
  --target gradplan_common gradplan_aarch64 2>&1 | tee "${log}" |
  sed -un 's|^ *\(\[[0-9]*/[0-9]*\]\) .*CMakeFiles/\(.*\)\.dir/\(.*\)\.o$|\1 \2: \3|p' ||
  { cat "${log}"; exit 1; }
rm -rf "${package}"
mkdir -p "${package}"
cp -r src/gradplan "${package}/"
rm -rf "${package}/gradplan/lib" "${package}"/gradplan/torch/*.so
mkdir -p "${package}/gradplan/lib"
cp "${here}"/cmake/libgradplan_*.so "${package}/gradplan/lib/"

say "certifying under qemu (minutes)"
started=${SECONDS}
"${arm}" -m gradplan certify | tee "${here}/certificate"
say "certified in $((SECONDS - started)) s"
grep -q "engine cpu (aarch64)" "${here}/certificate" || { say "not by the aarch64 library"; exit 1; }
grep -qxF "$(tail -1 "${here}/certificate")" README.md || { say "README.md says otherwise"; exit 1; }
say "the certificate of README.md"
