#!/usr/bin/env bash
# Markdown for people who review: which snapshots a change touches, and what a run just now saw differently. All
# snapshots of the repository count: the transcripts in snapshots/ and those next to the harness's sources.
set -euo pipefail
base=${BASE:-}
# COMPARED: how the step ended that compares the run with the snapshots, as GitHub says it; success if nobody says.
each=60000   # bytes of one difference
left=900000  # bytes of all of them: GitHub drops a summary of more than 1 MiB

fold() { # title; the text comes on standard input
  local text most=$each note=
  if [ "$left" -lt "$most" ]; then most=$left; fi
  text=$(head -c "$((most + 1))"; cat >/dev/null) # all is read: who writes must not end by a broken pipe
  [ -n "$text" ] || return 0
  if [ "$(wc -c <<<"$text")" -gt "$((most + 1))" ]; then
    text=$(head -c "$most" <<<"$text" | iconv -c -f utf-8 -t utf-8 2>/dev/null || true) # half a character is dropped
    note=", cut off"
  fi
  left=$((left - $(wc -c <<<"$text")))
  printf '<details><summary>%s%s</summary>\n\n```diff\n%s\n```\n\n</details>\n\n' "$1" "$note" "$text"
}

echo "### Snapshots"
if [ -n "$base" ] && git cat-file -e "$base^{commit}" 2>/dev/null; then
  changed=$(git diff --name-only "$base...HEAD" -- '*.snap' | wc -l)
  echo "$changed changed in this branch."
  echo
  fold "What changed in the branch" < <(git diff "$base...HEAD" -- '*.snap')
else
  echo "There is nothing to compare the branch with."
  echo
fi

new=$(find . \( -path ./target -o -path ./.git \) -prune -o -name '*.snap.new' -print | sed 's|^\./||' | sort)
if [ -z "$new" ]; then
  # Nothing new is good news only from a comparison that came to its end.
  case "${COMPARED:-success}" in
    success) echo "The run saw what the snapshots say." ;;
    failure) echo "**The comparison failed** without a new snapshot: see the step \`Compare the snapshots\`." ;;
    *) echo "**Nothing was compared**: the step \`Compare the snapshots\` did not run ($COMPARED)." ;;
  esac
  exit 0
fi
echo "The run saw something else in $(wc -l <<<"$new") of them."
echo
while IFS= read -r file; do
  # A snapshot that does not exist yet is all new.
  fold "${file%.snap.new}" < <(diff -u --new-file "${file%.new}" "$file" || true)
done <<<"$new"
