#!/usr/bin/env bash
# scripts/make-stories: the same bytes for the same options, JSON lines of the promised shape, and
# two parts that have no text in common.
set -euo pipefail
repository=$1
stories=$repository/scripts/make-stories
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

failures=0
fail() {
  printf 'make_stories_test: %s\n' "$1" >&2
  failures=1
}

# The sample in testdata/ is what the commands in its README make.
"$stories" --seed 1 --documents 60 >sample
cmp sample "$repository/testdata/stories/stories.jsonl" || fail 'stories.jsonl differs'
"$stories" --seed 2 --documents 30 --task >sample
cmp sample "$repository/testdata/stories/lastword.jsonl" || fail 'lastword.jsonl differs'

"$stories" --documents 5000 >a
"$stories" --documents 5000 --seed 1 >again
"$stories" --documents 5000 --seed 2 >other
"$stories" --documents 3000 --seed 2 --held-out >held
"$stories" --documents 3000 --seed 2 --task >task
cmp -s a again || fail 'two runs differ'
head -n 1000 a | cmp -s - <("$stories" --documents 1000) || fail '1000 documents are not the first'
if cmp -s a other; then fail 'the seed has no effect'; fi
[[ $(wc -l <a) == 5000 && $(wc -l <held) == 3000 ]] || fail 'not as many lines as asked for'
[[ $("$stories" --documents 0 | wc -c) == 0 ]] || fail '--documents 0 wrote something'

story='^\{"text": "([A-Z][A-Za-z0-9 ]*\. ){1,7}[A-Z][A-Za-z ]*\."\}$'
if grep -vE "$story" a held; then fail 'these are no stories'; fi
sed 's/\."}$/"}/' held | cmp -s - task || fail '--task is not --held-out without the full stop'
cat a other | sort -u >written
if sort -u held | comm -12 written - | grep .; then fail 'these are in both parts'; fi
(($(sort -u a | wc -l) > 4500)) || fail 'more than a tenth are repetitions'

# A sum is right: "Tom has 3 apples. He finds 4 more. Now he has seven."
sed -n 's/^{"text": "\(.*\) has \([a-z]*\)\."}$/\1 \2/p' a | awk '
  BEGIN { n = split("one two three four five six seven eight nine ten eleven twelve", words)
          for (i = 1; i <= n; ++i) value[words[i]] = i }
  { who = $(NF - 1); total = 0; last = ""
    if (who == "he" || who == "she") { for (i = 2; $i != "has"; ++i); who = $(i - 1) }
    gsub(/\./, "")
    for (i = 1; i < NF - 2; ++i) {
      if ($i == who || (($i == "He" || $i == "She") && last == who)) {
        if ($(i + 1) == "has" && $(i + 2) ~ /^[0-9]+$/) total += $(i + 2)
        if ($(i + 1) == "finds") total += $(i + 2)
        if ($(i + 1) == "loses") total -= $(i + 2)
      }
      if ($(i + 1) ~ /^(has|finds|loses)$/ && $i != "He" && $i != "She") last = $i
    }
    ++sums
    if (total != value[$NF]) { print "wrong: " $0; bad = 1 } }
  END { exit bad || sums < 300 }' || fail 'a sum is wrong, or there are too few'

for mistake in '--seed' '--seed x' '--seed -1' '--documents 1e3' '--seed 2147483648' '--nothing'; do
  code=0
  # shellcheck disable=SC2086  # options, on purpose
  "$stories" $mistake >out 2>err </dev/null || code=$?
  [[ $code == 64 && ! -s out && $(wc -l <err) == 1 ]] || fail "$mistake: exit code $code"
done
exit $failures
