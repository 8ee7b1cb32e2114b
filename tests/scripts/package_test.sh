#!/usr/bin/env bash
# What cpack makes of a build folder, a .deb and a tarball, is whole, and its programs run from where it is unpacked.
#
#   tests/scripts/package_test.sh REPOSITORY BUILD [ROOT]
#
# ROOT: a folder with a Debian of its own, as debootstrap makes it: the .deb is installed there by apt, with what it
# depends on and recommends, and README's first hour and the guides are run in it.
set -euo pipefail
repository=$1 build=$2 root=${3-}
command -v cpack > /dev/null && command -v dpkg-shlibdeps > /dev/null || exit 125
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { printf 'package_test: %s\n' "$1" >&2; exit 1; }

(cd "$build" && cpack -G 'DEB;TGZ' -B "$scratch") > "$scratch/log" 2>&1 || { cat "$scratch/log"; fail 'cpack failed'; }
deb=("$scratch"/mt_*_amd64.deb)
dpkg-deb -x "${deb[0]}" "$scratch/deb"
mkdir "$scratch/tgz"
tar xzf "$scratch"/mt-*.tar.gz -C "$scratch/tgz" --strip-components 1
diff -r "$scratch/deb/usr" "$scratch/tgz" || fail 'the two differ'
for program in "$build"/cmd/mt-*; do
  name=${program##*/}
  [[ -s $scratch/tgz/share/man/man1/$name.1 ]] || fail "no manual page of $name"
  "$scratch/tgz/bin/$name" --version | head -n 1 | grep -qxE "$name [0-9.]+( commit [0-9a-f]+)?" || fail "$name --version"
done
for guide in "$repository"/man/*.7.md; do
  name=$(basename "$guide" .md)
  [[ ! -e $build/man/$name || -s $scratch/tgz/share/man/man7/$name ]] || fail "no manual page $name"
done
depends=$(dpkg-deb -f "${deb[0]}" Depends)
for library in libhdf5-103-1 libicu72 libjpeg62-turbo libopenblas0 libpng16-16 libwebp7 libsimdjson14 libtbb12 libzstd1; do
  [[ $depends == *"$library"* ]] || fail "the package does not depend on $library: $depends"
done

[[ $root ]] || exit 0
cp "${deb[0]}" "$root/tmp/mt.deb"
cp -r "$repository"/{README.md,man,scripts,tests} "$root/tmp"
[[ -e $root/etc/hosts ]] || echo '127.0.0.1 localhost' > "$root/etc/hosts"  # as every system has it
chroot "$root" sh -ec '
  apt-get install -q -y --no-install-recommends /tmp/mt.deb man-db curl jq > /tmp/log 2>&1 || { cat /tmp/log; exit 1; }
  man -w mt mt-tutorial mt-pretrain > /dev/null
  /tmp/tests/scripts/guides_test.sh /tmp /usr/bin'
