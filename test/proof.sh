#!/usr/bin/env bash
# `make proof`: the tests that take too long for every change, as root, in some hours.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tiers.sh
. test/tiers.sh

# N is of other tiers.
N='' tier mutants
tier rig
ROUNDS=${ROUNDS:-1000} tier model-test
CHANGES=${CHANGES:-300} tier crash-test
tier fuzz
N=${N:-200} tier power-test
N=${DEVICES:-1000} tier fleet-test
PROOF=1 tier device-test
PROOF=1 tier update-test
tier activation-test
tier phone-test
tier storage-test
PROOF=1 tier card-test
PROOF=1 tier pi-test
HOURS=${HOURS:-1} tier soak
STEPS=${STEPS:-1000} tier walk
STRIKES=${STRIKES:-10000} tier strike-test
tier bench
conclude
