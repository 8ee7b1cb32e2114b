// Names of CUDA's types, so that including a kernel's header needs no CUDA header.
#pragma once

struct __nv_bfloat16;
struct __half;
using cudaStream_t = struct CUstream_st*;
