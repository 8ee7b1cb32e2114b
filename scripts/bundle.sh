#!/usr/bin/env bash
# bundle.sh: makes a folder that holds mt and what it needs, to be copied to other machines.
#
#   scripts/bundle.sh [--build DIR] [--output DIR] [--gpus LIST] [--with-cuda]
#
#   --build DIR    a configured build folder (build/release); the programs are built in it
#   --output DIR   what to make (dist); must not exist yet
#   --gpus LIST    the build folder is first configured for these GPUs (-DMT_GPUS, kernels/gpus.cmake):
#                  `all` for a release, one to carry, such as 80; else it is as it is
#   --with-cuda    add NVIDIA's cuBLASLt (some 500 MiB); else a machine with a GPU needs the CUDA
#                  Toolkit's, where its loader finds it or under /usr/local/cuda
#
# It runs on x86-64 Linux whose C library is at least as new as that of the machine that made it;
# which is printed.  A GPU is used where an NVIDIA driver is; without one the programs compute on the
# CPU; mt-retro-index opens the machine's HDF5.  The programs find the libraries in DIR/lib by their
# place beside DIR/bin, so DIR can be moved.
# Two libraries are made smaller: of OpenBLAS there is what the programs call, of ICU's data what
# belongs to no language but the rules of sentences.  Licences of what is added stand in DIR/share/doc.
# Exit codes: 64 usage; 69 a tool is missing; 73 DIR exists; else that of what failed.
set -euo pipefail

usage() {
  printf 'usage: bundle.sh [--build DIR] [--output DIR] [--gpus LIST] [--with-cuda]\n' >&2
  exit 64
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build/release output=dist gpus='' with_cuda=no
while (($# > 0)); do
  case $1 in
    --build | --output | --gpus)
      (($# > 1)) || usage
      declare "${1#--}=$2"
      shift
      ;;
    --with-cuda) with_cuda=yes ;;
    *) usage ;;
  esac
  shift
done
for tool in cmake gcc icupkg ldd objcopy objdump strip; do
  command -v "$tool" >/dev/null || {
    printf 'bundle.sh: %s is missing; scripts/setup installs it\n' "$tool" >&2
    exit 69
  }
done
[[ ! -e $output ]] || {
  printf 'bundle.sh: %s exists; remove it, or name another with --output\n' "$output" >&2
  exit 73
}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

[[ -z $gpus ]] || cmake -S "$root" -B "$build" "-DMT_GPUS=$gpus" >&2
cmake --build "$build" --target programs >&2
cmake --install "$build" --prefix "$output" --strip >&2
mkdir -p "$output/lib" "$output/share/doc/mt/licences"

# Libraries that the programs load, NAME PATH a line, but libmt, which is there, and those of the C library.
libraries() {
  ldd "$output"/bin/mt-* | sed -n 's/^\t\([^ ]*\) => \([^ ]*\) .*/\1 \2/p' |
    grep -Ev '^(ld-linux-x86-64|lib(c|m|dl|mt|rt|pthread))\.so\.' | sort -u
}

# add_openblas PATH: the library again from its archive, with what the programs call.  Processors
# without AVX share the kernels of the first that had SSE3, others without AVX2 those of Sandy Bridge, and
# Cooper Lake takes Skylake's.
add_openblas() {
  local archive=${1%/*}/libopenblas.a needed core same=()
  for core in ATOM BARCELONA BOBCAT CORE2 DUNNINGTON NANO NEHALEM OPTERON_SSE3 PENRYN; do
    same+=("-Wl,--defsym=gotoblas_$core=gotoblas_PRESCOTT")
  done
  for core in BULLDOZER EXCAVATOR PILEDRIVER STEAMROLLER; do
    same+=("-Wl,--defsym=gotoblas_$core=gotoblas_SANDYBRIDGE")
  done
  same+=(-Wl,--defsym=gotoblas_COOPERLAKE=gotoblas_SKYLAKEX)
  needed=$(comm -12 <(nm -D --undefined-only "$output"/lib/libmt.so.* | sed -n 's/^ *U \([^@]*\).*/\1/p' | sort -u) \
    <(nm -D --defined-only "$1" | sed 's/.* //' | sort -u) | sed 's/^/-Wl,-u,/')
  # shellcheck disable=SC2086  # an option each
  gcc -shared -s -o "$output/lib/${1##*/}" "-Wl,-soname,${1##*/}" "${same[@]}" $needed "$archive" \
    -lm -lpthread
}

# add_icu_data PATH: the library again with a part of its data, in a file of the name it had.
add_icu_data() {
  local version=${1##*.so.} name
  name=icudt${version}l.dat
  mkdir "$scratch/items" "$scratch/part"
  objcopy -O binary -j .rodata "$1" "$scratch/$name"
  icupkg -l "$scratch/$name" |
    grep -E '^(brkitr/([^/]*\.res|sent[^/]*\.brk)|[^/]*\.(icu|nrm)|(root|pool|keyTypeData)\.res)$' >"$scratch/list.txt"
  icupkg -d "$scratch/items" -x "$scratch/list.txt" "$scratch/$name"
  icupkg --ignore-deps -s "$scratch/items" -a "$scratch/list.txt" new "$scratch/part/$name"
  gcc -shared -nostdlib "-Wl,-soname,${1##*/}" -o "$output/lib/${1##*/}" -x assembler - <<END
    .section .rodata
    .balign 16
    .globl icudt${version}_dat
    .type icudt${version}_dat, @object
icudt${version}_dat:
    .incbin "$scratch/part/$name"
    .size icudt${version}_dat, . - icudt${version}_dat
    .section .note.GNU-stack, "", @progbits
END
}

# add_licence PATH: that of the Debian package the file is of, where dpkg knows it.
add_licence() {
  local file package
  file=$(readlink -f "$1")
  package=$(dpkg-query -S "*${file#/usr}" 2>/dev/null | sed -n '1s/:.*//p') || return 0
  cp "/usr/share/doc/$package/copyright" "$output/share/doc/mt/licences/$package"
}

while read -r name path; do
  case $name in
    libgfortran.so.* | libquadmath.so.*) continue ;;  # OpenBLAS's, for LAPACK
    libopenblas.so.*) add_openblas "$path" ;;
    libicudata.so.*) add_icu_data "$path" ;;
    *) strip -o "$output/lib/$name" "$path" ;;
  esac
  add_licence "$path"
done < <(libraries)

size=$(du -sm --apparent-size "$output" | cut -f 1)
if [[ $with_cuda == yes ]]; then
  cuda=$(sed -n 's/^CUDA_cublasLt_LIBRARY:[^=]*=//p' "$build/CMakeCache.txt")
  cp -L "$cuda".[0-9][0-9] "$output/lib/"
fi
glibc=$(objdump -T "$output"/bin/* "$output"/lib/* | grep -o 'GLIBC_2\.[0-9]*' | sort -Vu | tail -n 1)
gpus=$(sed -n 's/^MT_GPUS:[^=]*=//p' "$build/CMakeCache.txt" | sed 's/-real//g; s/;/, /g')
printf '%s: %s MiB%s, %s; needs x86-64 Linux with glibc %s\n' "$output" "$size" \
  "$([[ $with_cuda == no ]] || printf ', and cuBLASLt')" \
  "$([[ -z $gpus ]] && printf 'for the CPU' || printf 'for GPUs %s' "$gpus")" "${glibc#GLIBC_}"
