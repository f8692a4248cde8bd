#!/bin/sh
# tests/lint/commit_messages.sh ROOT: commits made since scripts/hooks/commit-msg is in the tree have
# messages that it accepts, and it refuses those that it should.
set -eu
root=$1
hook=$root/scripts/hooks/commit-msg
file=$(mktemp)
trap 'rm -f "$file"' EXIT

refused=0
while IFS= read -r message; do
  printf "$message" >"$file"
  if "$hook" "$file" 2>/dev/null; then
    echo "accepted: $message"
    refused=1
  fi
done <<'MESSAGES'
\n\nWhy.
Add a thing
Added a thing\n\nWhy.
adding a thing\n\nWhy.
Add a thing.\n\nWhy.
Add a thing\nWhy.
Add a thing\n\nSigned-off-by: Somebody <s@example.org>
Add a thing whose subject has more columns than the seventy-two that are allowed\n\nWhy.
MESSAGES
printf 'Add a thing\n\nIt was missing.\n' >"$file"
"$hook" "$file"
[ "$refused" = 0 ] || exit 1

if ! git -C "$root" rev-parse --git-dir >/dev/null 2>&1; then
  echo 'SKIP commit messages: no git repository'
  exit 77
fi
since=$(git -C "$root" log --diff-filter=A --format=%H -- scripts/hooks/commit-msg | tail -1)
if [ -z "$since" ] || [ "$(git -C "$root" rev-parse --is-shallow-repository)" = true ]; then
  echo 'SKIP commit messages: the history does not reach back to the rules'
  exit 77
fi
count=0
bad=0
for commit in $(git -C "$root" rev-list --no-merges "$since..HEAD"); do
  git -C "$root" log -1 --format=%B "$commit" >"$file"
  count=$((count + 1))
  "$hook" "$file" || bad=$((bad + 1))
done
echo "$count commits, $bad problems"
[ "$bad" = 0 ]
