// Files of torch.save before PyTorch 1.6, without an archive: one after another the pickles of
//   int 0x1950A86A20F9469CFC6C; int 1001; a dict of the machine; the object; a list of keys, each a
//   str
// then of each key in that order its storage: u64 elements, and these.  All is little-endian.
// Storages are the persistent ids ('storage', GLOBAL torch FloatStorage, key, 'cpu', numel, None).
#pragma once

#include <map>
#include <string>

#include "ckpt/pickle.h"
#include "tensor/tensor.h"

namespace mt {

struct TorchPickles {
  PyValue value;
  std::map<std::string, Bytes> storages;  // views of the file
};

bool are_torch_pickles(Bytes file);  // by their beginning, of which 8 bytes are enough
// The file of a tensor's storage alone (host memory).
std::string write_torch_storage(ConstTensor tensor);
// Exit::bad_data.
TorchPickles read_torch_pickles(Bytes file, const std::string& name, Allowance& allowance);

}  // namespace mt
