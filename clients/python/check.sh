#!/bin/sh
# Checks types, runs the tests, builds wheel and sdist, and runs a test on the wheel in an empty environment.
set -eu
cd "$(dirname "$0")"
python=${PYTHON:-python3}
export MAILROOM_BIN="${MAILROOM_BIN:-$PWD/../../bin/mailroom}"
[ -x "$MAILROOM_BIN" ] || { echo "no $MAILROOM_BIN: run make build, or set MAILROOM_BIN" >&2; exit 1; }

$python -m mypy
PYTHONPATH=src $python -m unittest discover -s test

rm -rf dist build
$python -m build --no-isolation --wheel --sdist --outdir dist . >/dev/null
rm -rf build
empty=$(mktemp -d)
trap 'rm -rf "$empty"' EXIT
$python -m venv "$empty"
"$empty/bin/pip" install --quiet --no-index dist/*.whl
# Its folder is not on the path: the package that is tested is the installed one.
"$empty/bin/python" -c 'import mailroom, sys; sys.exit(not mailroom.__file__.startswith(sys.prefix))'
"$empty/bin/python" -m unittest discover -s test -k test_an_approval_an_effect_and_streamed_text
ls dist
