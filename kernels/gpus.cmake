# gpus.cmake: which GPUs kernels are compiled for, as MT_GPUS says: compute capabilities without
# their points.
#
#   75 80 86 ...   code for these GPUs; it also serves later ones of the same generation
#   90a            the same for Hopper, whose own kernels are compiled for it alone; so is 90
#   80-virtual     PTX, which the driver of that or any later GPU translates when a program starts
#   all            what releases have: MT_ALL_GPUS below
#   none           none: a build without kernels for GPUs, also where nvcc is
#   check          they are compiled for Hopper in a third of the time, to see that they can be; GPUs do
#                  not run them: for machines that have nvcc and none
#
# mt_gpus(OUT LIST NVCC): LIST as CMAKE_CUDA_ARCHITECTURES has it; empty: the GPUs of this machine,
# 90a where there are none.  What is wrong with it is said in one line.  NVCC: the compiler, which
# must know them, or empty.
#
#   cmake -DMT_GPUS=LIST -P gpus.cmake      prints what becomes of a LIST
set(MT_ALL_GPUS 75 80 86 89 90a 100 120 100-virtual)

# mt_own_gpus(OUT): those of this machine, from Turing on.
function(mt_own_gpus out)
  set(found)
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
                  OUTPUT_VARIABLE text RESULT_VARIABLE result ERROR_QUIET)
  if(result STREQUAL "0")
    string(REGEX MATCHALL "[0-9]+\\.[0-9]" found "${text}")
    list(TRANSFORM found REPLACE "\\." "")
    list(FILTER found EXCLUDE REGEX "^([0-6].|7[0-4])$")
    list(REMOVE_DUPLICATES found)
  endif()
  if(NOT found)
    set(found 90a)
  endif()
  set(${out} "${found}" PARENT_SCOPE)
endfunction()

function(mt_gpus out given nvcc)
  set(gpus)
  if(given STREQUAL "")
    mt_own_gpus(given)
  elseif(given STREQUAL "all")
    set(given "${MT_ALL_GPUS}")
  elseif(given STREQUAL "none")
    set(given)
  elseif(given STREQUAL "check")
    set(given 90a)
  endif()
  if(nvcc)
    execute_process(COMMAND "${nvcc}" --list-gpu-arch OUTPUT_VARIABLE known ERROR_QUIET)
  endif()
  foreach(gpu ${given})
    string(REGEX REPLACE "^90(-real)?$" "90a" gpu "${gpu}")
    if(NOT gpu MATCHES "^(90a(-real)?|([0-9]+)(-real|-virtual)?)$")
      message(FATAL_ERROR "MT_GPUS: ${gpu}: expected capabilities such as 80 or 90a, or all")
    elseif(CMAKE_MATCH_3 AND CMAKE_MATCH_3 LESS 75)
      message(FATAL_ERROR "MT_GPUS: ${gpu}: kernels are for Turing, 75, and later GPUs")
    endif()
    string(REGEX MATCH "^[0-9]+" number "${gpu}")
    if(nvcc AND NOT known MATCHES "compute_${number}[^0-9]")
      message(FATAL_ERROR "MT_GPUS: ${gpu}: not known to ${nvcc}; see its --list-gpu-arch")
    endif()
    if(NOT gpu MATCHES "-")
      string(APPEND gpu "-real")
    endif()
    list(APPEND gpus ${gpu})
  endforeach()
  list(REMOVE_DUPLICATES gpus)
  set(${out} "${gpus}" PARENT_SCOPE)
endfunction()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  mt_gpus(gpus "${MT_GPUS}" "")
  message(STATUS "${gpus}")
endif()
