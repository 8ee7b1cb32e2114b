#!/usr/bin/env bash
# scripts/unity-batches: files with clashing names are never in one batch, and others are.
set -euo pipefail
root=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

put() { # put FILE LINE...
  local file=$1
  shift
  printf '%s\n' 'namespace mt {' 'namespace {' "$@" '}  // namespace' '}  // namespace mt' >"$file"
}
put alone.cpp 'int other(int x) { return x; }' '// check'
put function.cpp 'void check(const Shape& shape) {' '  std::string name;' '}'
put calls.cpp 'int f() { return check(3); }'
put type.cpp 'struct Reader {' '  int check = 0;' '};'
put alias.cpp 'using Place = std::pair<int, int>;'
put constant.cpp 'constexpr int kRows[] = {1, 2};'
put template.cpp 'template <class T>' 'T sum_of(T a) {' '  return a;' '}'
put macro.cpp '#define FOR_ALL(T) T;'
put undefined.cpp '#define FOR_ALL(T) T;' '#undef FOR_ALL'
put other_alias.cpp 'using Place = std::pair<int, long>;'
put members.cpp 'int g() { return std::check(that.check, those->check()); }'
printf '%s\n' 'namespace mt {' 'static bool known(int x) {' '}' 'void Class::run() {}' >static.cpp
printf '%s\n' '#include "text/unicode/unicode.h"' >includes.cpp  # which says kWords
put words.cpp 'constexpr int kWords = 3;'
printf '%s\n' 'using namespace tables;' >whole.cpp
printf '%s\n' 'namespace mt {' 'void run_all() { Place p; kRows; run(); }' >uses.cpp

# expect BYTES BATCHES FILE...: the batches of the files, in their order.
failed=0
expect() {
  local bytes=$1 batches=$2 got
  shift 2
  got=$("$root/scripts/unity-batches" "$bytes" "$@" | cut -d ' ' -f 1 | tr '\n' ' ')
  [[ $got == "$batches " ]] || {
    printf 'unity_batches_test: %s: got %s, expected %s\n' "$*" "$got" "$batches" >&2
    failed=1
  }
}

expect 10000 '1 1 1' alone.cpp function.cpp constant.cpp
expect 10000 '1 2' function.cpp calls.cpp
expect 10000 '1 2 1' calls.cpp function.cpp type.cpp
expect 10000 '1 2 1 1' alias.cpp uses.cpp constant.cpp static.cpp
expect 10000 '1 1' function.cpp members.cpp
expect 10000 '1 2' alias.cpp other_alias.cpp
for file in function type constant template macro static; do
  cp "$file.cpp" again.cpp
  expect 10000 '1 2' "$file.cpp" again.cpp
done
for file in alias undefined; do
  cp "$file.cpp" again.cpp
  expect 10000 '1 1' "$file.cpp" again.cpp
done
expect 10000 '1 2 1' words.cpp includes.cpp alone.cpp
expect 10000 '1 2 1' alone.cpp whole.cpp words.cpp
expect 250 '1 1 2' function.cpp alone.cpp template.cpp
expect 10 '1 2' function.cpp alone.cpp
exit $failed
