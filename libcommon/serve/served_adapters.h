// ServedAdapters: what clients call the adapters of the model that is served, some of which come
// and go meanwhile.  Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mt {

class Model;

// What adapters that clients have loaded are loaded beside, and which they may be.
struct RuntimeAdapters {
  Model* model = nullptr;
  std::string load;    // the path that it was loaded from
  std::string folder;  // below which they lie; empty: clients load none
  std::int64_t max_rank = 0;
};

class ServedAdapters {
 public:
  // Those that there are from the beginning, in the order of the model's.
  explicit ServedAdapters(const std::vector<std::string>& names, RuntimeAdapters runtime = {});

  const RuntimeAdapters& runtime() const { return runtime_; }
  std::optional<std::int64_t> find(std::string_view name) const;  // its number, from 1
  const std::string& name(std::int64_t adapter) const;            // also of one that is gone
  std::vector<std::int64_t> all() const;
  void add(std::int64_t adapter, std::string name);  // one of the model's
  void remove(std::int64_t adapter);

 private:
  struct Entry {
    std::string name;
    bool is_there = true;
  };
  const RuntimeAdapters runtime_;
  mutable std::mutex mutex_;
  std::map<std::int64_t, Entry> all_;  // by their numbers; names stay where they are
};

}  // namespace mt
