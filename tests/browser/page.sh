#!/bin/sh
# tests/browser/page.sh ROOT BUILD: page_test.js for a build of the page, where there are one and what
# it takes to run it.
command -v node >/dev/null || {
  echo 'skipped: node is not installed (Debian: nodejs)'
  exit 77
}
exec node "$1/tests/browser/page_test.js" "$1" "$2"
