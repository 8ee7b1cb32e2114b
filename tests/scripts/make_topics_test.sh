#!/usr/bin/env bash
# scripts/make-topics: the same bytes for the same options, documents whose sentences share their things, and one line for
# what cannot be meant.
set -euo pipefail
repository=$1
topics=$repository/scripts/make-topics
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

failures=0
fail() {
  printf 'make_topics_test: %s\n' "$1" >&2
  failures=1
}

"$topics" a --documents 300
"$topics" again --seed 1 --documents 300
"$topics" other --seed 2 --documents 300
diff -r a again || fail 'two runs differ'
! cmp -s a/documents.jsonl other/documents.jsonl || fail 'another seed gives the same documents'
cmp a/vocab.txt other/vocab.txt || fail 'another seed gives other words'
(($(wc -l <a/documents.jsonl) == 300)) || fail 'not 300 documents'
[[ -z $(LC_ALL=C sort a/vocab.txt | uniq -d) ]] || fail 'a word is there twice'
# Every word of every document is in the vocabulary, and each document has three things, each in several sentences.
awk -F '"' 'NR == FNR { known[$0] = 1; next }
  { text = tolower($4 " " $8); gsub(/[.]/, "", text); n = split(text, words, " ")
    for (i = 1; i <= n; ++i) if (!(words[i] in known)) { print "unknown: " words[i]; exit 1 }
    split("", things); count = 0; n = split(tolower($8), words, /[ .]+/)
    for (i = 1; i <= n; ++i) if (words[i - 1] == "the" && !(words[i] in things)) { things[words[i]]; ++count }
    if (count > 3 || count < 2) { print count " things in line " FNR; exit 1 } }' a/vocab.txt a/documents.jsonl ||
  fail 'a document is not as expected'

# Passages are the documents; nine questions in ten are learnt, and each one's own passage has what it names and the answer.
(($(wc -l <a/evidence.tsv) == 301 && $(wc -l <a/dev.csv) == 30)) || fail 'not as many passages or questions'
(($(grep -c '"question"' a/train.json) == 270 && $(grep -c '"question"' a/dev.json) == 30)) || fail 'other questions'
paste <(grep -o '"question.*' a/dev.json) <(grep -A1 '"question"' a/dev.json | grep -o 'positive_ctxs.*') | awk '
  { gsub(/[^a-z ]/, " "); n = split($0, words, / +/); text = $0; sub(/.*text/, "", text)
    for (i = 1; i <= n && words[i] != "answers"; ++i) if (words[i - 1] == "the" && !index(text, " " words[i] " ")) exit 1 }' ||
  fail 'a passage does not have what its question names'

for mistake in '' 'f --seed' 'f --nothing 1'; do
  code=0
  # shellcheck disable=SC2086  # options, on purpose
  "$topics" $mistake >out 2>err </dev/null || code=$?
  [[ $code == 64 && ! -s out && $(wc -l <err) == 1 && ! -e f ]] || fail "$mistake: exit code $code, $(cat err)"
done
exit $failures
