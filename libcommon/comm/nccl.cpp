// The functions of NCCL that comm/nccl_group.cpp calls, each handed on to NVIDIA's library, which
// is opened by the first of them.
#include <nccl.h>

#include "base/error.h"
#include "base/shared_library.h"
#include "comm/nccl_group.h"

#define MT_TEXT_OF(number) #number
#define MT_LIBRARY(major) "libnccl.so." MT_TEXT_OF(major)

static void* in_library(const char* name) {
  static const mt::SharedLibrary library(
      {MT_LIBRARY(NCCL_MAJOR), MT_CUDA_LIBRARIES "/" MT_LIBRARY(NCCL_MAJOR)},
      "several GPUs need NVIDIA's NCCL: install it (libnccl2), or name its folder in "
      "LD_LIBRARY_PATH");
  return library.symbol(name);
}

// NVIDIA's function of our function's type and name.
template <auto* kOurs>
static auto* theirs(const char* name) {
  static const auto found = reinterpret_cast<decltype(kOurs)>(in_library(name));
  return found;
}

const char* ncclGetErrorString(ncclResult_t result) {
  return theirs<ncclGetErrorString>(__func__)(result);
}

const char* ncclGetLastError(ncclComm_t comm) { return theirs<ncclGetLastError>(__func__)(comm); }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) { return theirs<ncclGetUniqueId>(__func__)(id); }

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  return theirs<ncclCommInitRankConfig>(__func__)(comm, ranks, id, rank, config);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* part,
                           ncclConfig_t* config) {
  return theirs<ncclCommSplit>(__func__)(comm, color, key, part, config);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) { return theirs<ncclCommDestroy>(__func__)(comm); }

ncclResult_t ncclCommAbort(ncclComm_t comm) { return theirs<ncclCommAbort>(__func__)(comm); }

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return theirs<ncclAllReduce>(__func__)(in, out, count, type, op, comm, stream);
}

ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return theirs<ncclAllGather>(__func__)(in, out, count, type, comm, stream);
}

ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return theirs<ncclReduceScatter>(__func__)(in, out, count, type, op, comm, stream);
}

ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return theirs<ncclBroadcast>(__func__)(in, out, count, type, root, comm, stream);
}

ncclResult_t ncclSend(const void* in, size_t count, ncclDataType_t type, int to, ncclComm_t comm,
                      cudaStream_t stream) {
  return theirs<ncclSend>(__func__)(in, count, type, to, comm, stream);
}

ncclResult_t ncclRecv(void* out, size_t count, ncclDataType_t type, int from, ncclComm_t comm,
                      cudaStream_t stream) {
  return theirs<ncclRecv>(__func__)(out, count, type, from, comm, stream);
}

ncclResult_t ncclGroupStart() { return theirs<ncclGroupStart>(__func__)(); }

ncclResult_t ncclGetVersion(int* version) { return theirs<ncclGetVersion>(__func__)(version); }

ncclResult_t ncclGroupEnd() { return theirs<ncclGroupEnd>(__func__)(); }

// 22809 is 2.28.9.
static std::string in_words(int version) {
  return mt::concat(version / 10000, ".", version % 10000 / 100, ".", version % 100);
}

std::string mt::nccl_version() {
  const std::string text = concat("NCCL: built with ", in_words(NCCL_VERSION_CODE), "; ");
  try {
    int found = 0;
    ncclGetVersion(&found);
    return text + in_words(found) + " here";
  } catch (const Error&) {
    return text + "none here";
  }
}
