#!/usr/bin/env bash
# scripts/make-shapes: the same bytes for the same options, as many images of each shape as asked for, and one line for what
# cannot be meant.
set -euo pipefail
repository=$1
shapes=$repository/scripts/make-shapes
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

failures=0
fail() {
  printf 'make_shapes_test: %s\n' "$1" >&2
  failures=1
}

"$shapes" --images 9 --side 13 --seed 5 few
[[ $(find few -type f | LC_ALL=C sort | paste -sd' ') == "few/circle/000000.png few/circle/000004.png\
 few/circle/000008.png few/cross/000001.png few/cross/000005.png few/square/000002.png few/square/000006.png\
 few/triangle/000003.png few/triangle/000007.png" ]] || fail "other files: $(find few -type f)"
[[ $(cat few/*/*.png | cksum) == '3212817679 1125' ]] || fail "other bytes: $(cat few/*/*.png | cksum)"

"$shapes" --images 8 --side 12 --patterns filled
[[ $(find filled -type f | LC_ALL=C sort | paste -sd' ') == "filled/checks/000000.png filled/checks/000004.png\
 filled/columns/000001.png filled/columns/000005.png filled/diagonals/000002.png filled/diagonals/000006.png\
 filled/rows/000003.png filled/rows/000007.png" ]] || fail "other files: $(find filled -type f)"
[[ $(cat filled/*/*.png | cksum) == '1282564268 976' ]] || fail "other bytes: $(cat filled/*/*.png | cksum)"

"$shapes" --images 8 --side 12 --many many
[[ $(find many -type f | wc -l) == 8 ]] || fail "other files: $(find many -type f)"
[[ $(cat many/*/*.png | cksum) == '1967307838 976' ]] || fail "other bytes: $(cat many/*/*.png | cksum)"

"$shapes" a
"$shapes" --seed 1 --images 400 --side 32 again
"$shapes" --seed 2 other
diff -r a again || fail 'two runs differ'
(($(cat a/*/*.png other/*/*.png | wc -c) == 800 * 246)) || fail 'images have another size'
(($(cksum a/*/*.png other/*/*.png | cut -d' ' -f1 | sort -u | wc -l) == 800)) || fail 'an image is drawn twice'
for shape in circle cross square triangle; do
  (($(find "a/$shape" -type f | wc -l) == 100)) || fail "not 100 of $shape"
  # A PNG file of 32 rows and columns, of one bit a pixel from a palette, to the end.
  for image in a/"$shape"/00000?.png; do
    [[ $(head -c 26 "$image" | od -An -tx1 -v | tr -d ' \n') == 89504e470d0a1a0a0000000d49484452000000200000002001*03 &&
      $(tail -c 12 "$image" | od -An -tx1 -v | tr -d ' \n') == 0000000049454e44ae426082 ]] || fail "$image: no such image"
  done
done

for mistake in '' '--seed' '--seed x f' '--images -1 f' '--side 7 f' '--side 257 f' '--nothing f' 'f g' '--many --patterns f'; do
  code=0
  # shellcheck disable=SC2086  # options, on purpose
  "$shapes" $mistake >out 2>err </dev/null || code=$?
  [[ $code == 64 && ! -s out && $(wc -l <err) == 1 && ! -e f ]] || fail "$mistake: exit code $code, $(cat err)"
done
: >file
code=0
"$shapes" file >out 2>err || code=$?
[[ $code == 73 && ! -s out ]] || fail "into a file: exit code $code"
exit $failures
