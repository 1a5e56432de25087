#!/bin/sh
# For gcc's -wrapper: what goes to the assembler is rewritten for ckb-vm's cost model before.
#
#   riscv64-unknown-elf-gcc -wrapper "$PWD/cheaper-as.sh" -O3 -march=rv64imc_zba_zbb_zbc_zbs script.c ...
#
# Not with -g alone: -gno-variable-location-views belongs to it. Not with -flto, whose assembly comes later.
# ANTARES names the program, ANTARES_OPTIMISE gives it more words, --vm-version 1 say.
set -eu
case ${1##*/} in
*as)
    for last in "$@"; do :; done
    if [ "${last%.s}" != "$last" ]; then
        # shellcheck disable=SC2086
        "${ANTARES:-antares}" optimise --asm "$last" -o "$last" ${ANTARES_OPTIMISE:-}
    fi
    ;;
esac
exec "$@"
