#!/usr/bin/env bash
# Markdown for people who review: which snapshots a change touches, and what a run just now saw differently.
set -euo pipefail
base=${BASE:-}
limit=60000

fold() { # title; the text comes on standard input
  local text
  text=$(head -c "$limit")
  [ -n "$text" ] || return 0
  printf '<details><summary>%s</summary>\n\n```diff\n%s\n```\n\n</details>\n\n' "$1" "$text"
}

echo "### Snapshots"
if [ -n "$base" ] && git cat-file -e "$base^{commit}" 2>/dev/null; then
  changed=$(git diff --name-only "$base...HEAD" -- 'snapshots/*.snap' 'snapshots/**/*.snap' | wc -l)
  echo "$changed changed in this branch."
  echo
  git diff "$base...HEAD" -- 'snapshots/*.snap' 'snapshots/**/*.snap' | fold "What changed in the branch"
else
  echo "There is nothing to compare the branch with."
  echo
fi

new=$(find snapshots -name '*.snap.new' | sort)
if [ -z "$new" ]; then
  echo "The run saw what the snapshots say."
  exit 0
fi
echo "The run saw something else in $(wc -l <<<"$new") of them."
echo
while IFS= read -r file; do
  { diff -u "${file%.new}" "$file" || true; } | fold "${file%.snap.new}"
done <<<"$new"
