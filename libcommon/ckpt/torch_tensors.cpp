#include "ckpt/torch_tensors.h"

#include <filesystem>

#include "base/error.h"

namespace mt {

static bool is_dict(const PyValue& value) {
  return value.is(PyValue::Kind::dict) || value.is_object("collections", "OrderedDict");
}

TorchTensors::TorchTensors(const std::string& path) : file_(path), archive_(file_.bytes(), path) {
  if (!is_dict(archive_.value()))
    fail(Exit::bad_data, path, ": holds ", name_of(archive_.value().kind()),
         ", expected a dict of tensors");
  add("", archive_.value());
  if (tensors_.empty()) fail(Exit::bad_data, path, ": holds no tensors");
}

void TorchTensors::add(const std::string& name, const PyValue& value) {
  if (TorchReader::is_tensor(value)) {
    const StoredTensor stored = archive_.tensor(value);
    const std::uint64_t offset =  // 0 where it was packed
        file_.holds(stored.bytes)
            ? static_cast<std::uint64_t>(stored.bytes.data() - file_.bytes().data())
            : 0;
    tensors_[name] = {
        .key = name,
        .dtype = stored.dtype,
        .dtype_name = std::string(name_of(stored.dtype)),
        .shape = stored.shape,
        .chunks = {{origin_of(stored.shape.rank()),
                    stored.shape,
                    {path().substr(path().rfind('/') + 1), offset, stored.bytes.size()}}}};
    values_[name] = value;
  } else if (is_dict(value)) {
    const std::vector<PyValue>& entries = value.entries(path());
    for (std::size_t i = 0; i + 1 < entries.size(); i += 2)
      if (entries[i].is(PyValue::Kind::string))
        add(name.empty() ? entries[i].as_string("") : name + "." + entries[i].as_string(""),
            entries[i + 1]);
  }
}

void TorchTensors::read_original(const std::string& key, const Shape& offset, Tensor out) const {
  readable(key, offset, out);
  archive_.tensor(values_.at(key)).copy_once(file_, offset, out);
}

bool TorchTensors::are_one(const std::string& a, const std::string& b) const {
  if (!values_.contains(a) || !values_.contains(b)) return false;
  const StoredTensor x = archive_.tensor(values_.at(a)), y = archive_.tensor(values_.at(b));
  return x.bytes.data() == y.bytes.data() && x.shape == y.shape && x.strides == y.strides;
}

RankTensors::RankTensors(const std::string& folder) : folder_(folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string found = entry.path().filename().string();
    const bool megatron = found.starts_with("mp_rank_");
    if (!megatron && !(found.starts_with("consolidated.") && found.ends_with(".pth"))) continue;
    const std::string file = megatron ? found + "/model_optim_rng.pt" : found;
    const std::string rank = megatron ? found : entry.path().stem().string();
    auto& source = ranks_[rank];
    source = std::make_unique<TorchTensors>(concat(folder, "/", file));
    for (const auto& [name, tensor] : source->tensors()) {
      DistTensor& own = tensors_[concat(rank, "/", name)] = tensor;
      own.key = concat(rank, "/", name);
      own.chunks[0].place.file = file;
    }
  }
}

void RankTensors::read_original(const std::string& key, const Shape& offset, Tensor out) const {
  readable(key, offset, out);
  const std::size_t slash = key.find('/');
  ranks_.at(key.substr(0, slash))->read_original(key.substr(slash + 1), offset, out);
}

}  // namespace mt
