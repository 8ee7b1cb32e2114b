#include "ckpt/torch_tensors.h"

#include <filesystem>

#include "base/error.h"

namespace mt {

// Bytes of memory for what is known of a tensor beside its name, which is kept and listed some
// times.
constexpr std::uint64_t kTensorBytes = 1024;
constexpr std::size_t kMostName = 4096;

static bool is_dict(const PyValue& value) {
  return value.is(PyValue::Kind::dict) || value.is_object("collections", "OrderedDict");
}

static bool is_list(const PyValue& value) {
  return value.is(PyValue::Kind::list) || value.is(PyValue::Kind::tuple);
}

// Nothing of a key that names no tensors.
static std::string key_text(const PyValue& key, const std::string& path) {
  if (key.is(PyValue::Kind::string)) {
    if (key.as_string("").size() > kMostName)
      fail(Exit::bad_data, path, ": a name of more than ", kMostName, " bytes");
    return key.as_string("");
  }
  if (key.is(PyValue::Kind::integer)) return std::to_string(key.as_integer(""));
  if (!key.is(PyValue::Kind::tuple)) return {};
  std::string types;
  for (const PyValue& type : key.as_items("")) {
    if (!type.is(PyValue::Kind::global)) return {};
    types += concat(types.empty() ? "" : ", ", type.module(), ".", type.name());
  }
  return "(" + types + ")";
}

TorchTensors::TorchTensors(const std::string& path) : file_(path), archive_(file_.bytes(), path) {
  if (!is_dict(archive_.value()) && !is_list(archive_.value()))
    fail(Exit::bad_data, path, ": holds ", name_of(archive_.value().kind()),
         ", expected a dict of tensors");
  add("", archive_.value());
  if (tensors_.empty()) fail(Exit::bad_data, path, ": holds no tensors");
}

void TorchTensors::add(const std::string& name, const PyValue& value) {
  if (TorchReader::is_tensor(value)) {
    archive_.allowance().take(kTensorBytes + 6 * name.size(), path());
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
    return;
  }
  const auto add_below = [&](const std::string& key, const PyValue& item) {
    if (key.empty()) return;
    if (name.size() + key.size() > kMostName)
      fail(Exit::bad_data, path(), ": a name of more than ", kMostName, " bytes");
    add(name.empty() ? key : name + "." + key, item);
  };
  if (is_dict(value)) {
    const std::vector<PyValue>& entries = value.entries(path());
    for (std::size_t i = 0; i + 1 < entries.size(); i += 2)
      add_below(key_text(entries[i], path()), entries[i + 1]);
  } else if (is_list(value)) {
    const std::vector<PyValue>& items = value.as_items(path());
    for (std::size_t i = 0; i < items.size(); ++i) add_below(std::to_string(i), items[i]);
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
    if (found.starts_with("mp_rank_")) {
      add(found + "/model_optim_rng.pt", found + "/");
      const std::string optimizer = found + "/distrib_optim.pt";
      if (std::filesystem::exists(concat(folder, "/", optimizer)))
        add(optimizer, found + "/distrib_optim.");
    } else if (found.starts_with("consolidated.") && found.ends_with(".pth")) {
      add(found, entry.path().stem().string() + "/");
    }
  }
}

void RankTensors::add(const std::string& file, const std::string& beginning) {
  auto& source = files_[beginning];
  source = std::make_unique<TorchTensors>(concat(folder_, "/", file));
  for (const auto& [name, tensor] : source->tensors()) {
    const std::string key = beginning + name;
    DistTensor& own = tensors_[key] = tensor;
    own.key = key;
    own.chunks[0].place.file = file;
    beginnings_[key] = beginning;
  }
}

void RankTensors::read_original(const std::string& key, const Shape& offset, Tensor out) const {
  readable(key, offset, out);
  const std::string& beginning = beginnings_.at(key);
  files_.at(beginning)->read_original(key.substr(beginning.size()), offset, out);
}

}  // namespace mt
