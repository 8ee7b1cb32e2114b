#include "ckpt/torch_pickles.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "ckpt/torch_types.h"

namespace mt {

using Kind = PyValue::Kind;

constexpr std::string_view kMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";  // as a LONG1
constexpr std::string_view kBeginning = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46";

bool are_torch_pickles(Bytes file) { return as_text(file).starts_with(kBeginning); }

namespace {

class Reader {
 public:
  Reader(Bytes file, const std::string& name, Allowance& allowance)
      : file_(file), name_(name), allowance_(allowance) {}

  TorchPickles run() {
    const PyValue magic = next(), protocol = next(), machine = next();
    if (!magic.is(Kind::big_integer) || magic.as_bytes(name_) != kMagic ||
        !(protocol == PyValue(1001)))
      fail(Exit::bad_data, name_, ": begins like a file of PyTorch before 1.6, but is none");
    TorchPickles result{.value = next(), .storages = {}};
    find_sizes(result.value);
    const PyValue keys = next();
    for (const PyValue& key : keys.as_items(name_ + ": keys"))
      take_storage(key.as_string(name_ + ": key"), result.storages);
    if (at_ != file_.size())
      fail(Exit::bad_data, name_, ": ", file_.size() - at_, " bytes behind the last storage");
    return result;
  }

 private:
  PyValue next() {
    std::size_t size = 0;
    PyValue value =
        read_pickle(file_.subspan(at_), concat(name_, ": from byte ", at_), allowance_, &size);
    at_ += size;
    return value;
  }

  // What an element of each storage takes.
  void find_sizes(const PyValue& value) {
    switch (value.kind()) {
      case Kind::persistent:
        return find_size(value.persistent_id());
      case Kind::list:
      case Kind::tuple:
      case Kind::set:
        return find_sizes(value.as_items(name_));
      case Kind::dict:
        return find_sizes(value.entries(name_));
      case Kind::object:
        find_sizes(value.args());
        find_sizes(value.appended());
        find_sizes(value.set_items());
        if (value.state() != nullptr) find_sizes(*value.state());
        return;
      default:
        return;
    }
  }
  void find_sizes(const std::vector<PyValue>& values) {
    for (const PyValue& value : values) find_sizes(value);
  }
  void find_size(const PyValue& id) {
    const std::string where = name_ + ": storage";
    const std::vector<PyValue>& parts = id.as_items(where);
    if (parts.size() != 6 || !(parts[0] == PyValue("storage")) || !parts[1].is(Kind::global))
      return;
    if (!parts[5].is_none()) fail(Exit::bad_data, where, ": is a view of another, not supported");
    if (parts[1].is_global("torch.storage", "UntypedStorage"))
      sizes_[parts[2].as_string(where)] = 1;
    for (const StorageClass& known : kStorageClasses)
      if (parts[1].is_global("torch", known.name))
        sizes_[parts[2].as_string(where)] = size_of(known.dtype);
  }

  void take_storage(const std::string& key, std::map<std::string, Bytes>& storages) {
    const auto size = sizes_.find(key);
    if (size == sizes_.end())
      fail(Exit::bad_data, name_, ": storage ", key,
           ": is of no tensor, or of a type that is not supported");
    std::uint64_t elements = 0;
    if (file_.size() - at_ < sizeof elements)
      fail(Exit::bad_data, name_, ": ends before the size of storage ", key);
    std::memcpy(&elements, file_.data() + at_, sizeof elements);
    at_ += sizeof elements;
    if (elements > (file_.size() - at_) / size->second)
      fail(Exit::bad_data, name_, ": storage ", key, " of ", elements, " elements of ",
           size->second, " bytes: ", file_.size() - at_, " bytes are left");
    storages[key] = file_.subspan(at_, elements * size->second);
    at_ += elements * size->second;
  }

  Bytes file_;
  const std::string& name_;
  Allowance& allowance_;
  std::size_t at_ = 0;
  std::map<std::string, std::size_t> sizes_;
};

}  // namespace

std::string write_torch_storage(ConstTensor tensor) {
  const PyValue machine =
      PyValue::dict({{"protocol_version", 1001},
                     {"little_endian", true},
                     {"type_sizes", PyValue::dict({{"short", 2}, {"int", 4}, {"long", 4}})}});
  const auto* const known =
      std::ranges::find(kStorageClasses, tensor.dtype(), &StorageClass::dtype);
  const std::int64_t count = tensor.numel();
  const PyValue storage = PyValue::persistent(PyValue::tuple(
      {"storage", PyValue::global("torch", known->name), "0", "cpu", count, PyValue()}));
  std::string file = write_pickle(PyValue::big_integer(std::string(kMagic)));
  for (const PyValue& value : {PyValue(1001), machine, storage, PyValue::list({"0"})})
    file += write_pickle(value);
  file.append(reinterpret_cast<const char*>(&count), sizeof count);
  file.append(static_cast<const char*>(tensor.data()), tensor.bytes());
  return file;
}

TorchPickles read_torch_pickles(Bytes file, const std::string& name, Allowance& allowance) {
  return Reader(file, name, allowance).run();
}

}  // namespace mt
