// Pickle: Python's object streams as trees of plain values.
//
// The reader knows protocols 0 to 5 and never resolves a name: a class or function is only its
// module and name (`global`), and what a stream builds with one is an `object` that remembers how.
// Nothing is ever looked up or called.  Three builders of plain data become that data:
// `_codecs encode` (str, 'latin1') and `bytes` () are bytes, `set` ([..]) is a set.
//
// The writer emits protocol 2 without a memo, in the forms that PyTorch's weights-only unpickler
// knows (hexadecimal opcodes without a letter):
//   None N   bool 88 89   int K M J 8A   float G   str X   global c MODULE \n NAME \n
//   tuple    )  or items 85, 86, 87  or ( items t
//   list     ]  and item a  or ( items e, in batches of 1000
//   dict     }  and ( keys and values u, in batches of 1000
//   bytes    c _codecs encode, X text, X 'latin1', 86 R;  empty: c __builtin__ bytes, ) R
//   set      c __builtin__ set, list, 85 R
//   object   its callable, arguments, R (NEWOBJ: 81), then items as above, then its state and b
//   persistent id: its value and Q
//
// A PyValue refers to its content as a Python variable does: copies share it.  What the reader
// returns has no cycles and nests at most kMaxPickleNesting deep, so recursion over it is safe.
// Several threads may read a value while nobody changes it.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/allowance.h"
#include "base/file.h"

namespace mt {

inline constexpr int kMaxPickleNesting = 500;

class PyValue {
 public:
  enum class Kind : std::uint8_t {
    none,
    boolean,
    integer,
    big_integer,  // one that does not fit into 64 bits
    real,
    string,
    bytes,
    list,
    tuple,
    set,
    dict,
    global,      // a class or function by name
    object,      // callable(*args), and what was added to it later
    persistent,  // a reference to something outside the stream: PyTorch's storages
  };

  PyValue() = default;  // None. Plain values convert.  NOLINTBEGIN(google-explicit-constructor)
  template <std::same_as<bool> T>
  PyValue(T truth) : kind_(Kind::boolean), integer_(truth) {}
  template <std::integral T>
  requires(!std::same_as<T, bool>) PyValue(T number)
      : kind_(Kind::integer), integer_(static_cast<std::int64_t>(number)) {}
  template <std::floating_point T>
  PyValue(T number) : kind_(Kind::real), real_(number) {}
  PyValue(const char* text) : PyValue(std::string(text)) {}
  PyValue(std::string_view text) : PyValue(std::string(text)) {}
  PyValue(std::string text) : PyValue(Kind::string, std::move(text), {}) {}
  // NOLINTEND(google-explicit-constructor)
  static PyValue bytes(std::string content) { return {Kind::bytes, std::move(content), {}}; }
  // Two's complement, least significant byte first; a plain integer if it fits into 64 bits.
  static PyValue big_integer(std::string content);
  static PyValue list(std::vector<PyValue> items = {}) {
    return {Kind::list, {}, std::move(items)};
  }
  static PyValue tuple(std::vector<PyValue> items = {}) {
    return {Kind::tuple, {}, std::move(items)};
  }
  static PyValue set(std::vector<PyValue> items = {}) { return {Kind::set, {}, std::move(items)}; }
  static PyValue dict(std::vector<std::pair<PyValue, PyValue>> entries = {});
  static PyValue global(std::string_view module, std::string_view name);
  static PyValue call(PyValue callable, std::vector<PyValue> args);  // REDUCE
  static PyValue make(PyValue type);                                 // NEWOBJ without arguments
  static PyValue make(PyValue type, PyValue state);                  // and BUILD
  static PyValue persistent(PyValue id) { return {Kind::persistent, {}, {std::move(id)}}; }

  Kind kind() const { return kind_; }
  bool is_none() const { return kind_ == Kind::none; }
  bool is(Kind kind) const { return kind_ == kind; }

  // The content, or an error "WHERE: is a str, expected an int".
  bool as_bool(std::string_view where) const;
  std::int64_t as_integer(std::string_view where) const;
  double as_real(std::string_view where) const;  // an int too
  const std::string& as_string(std::string_view where) const;
  const std::string& as_bytes(std::string_view where) const;           // also of a big integer
  const std::vector<PyValue>& as_items(std::string_view where) const;  // of a list, tuple or set

  // Dict entries in order, key and value alternating: of a dict, or of an object that had items set
  // (OrderedDict); else of an object's state if that is a dict (Namespace, dataclasses).
  const std::vector<PyValue>& entries(std::string_view where) const;
  const PyValue* find(std::string_view key) const;  // among entries; null if absent
  const PyValue& at(std::string_view key, std::string_view where) const;

  // The names of a global; those of an object's callable, empty if that is no global.
  std::string_view module() const;
  std::string_view name() const;
  bool is_global(std::string_view module, std::string_view name) const;
  bool is_object(std::string_view module, std::string_view name) const;

  const PyValue& persistent_id() const;  // of a persistent only
  // These are of an object only.
  const PyValue& callable() const;
  const std::vector<PyValue>& args() const;
  const PyValue* kwargs() const;                  // a dict, after NEWOBJ_EX; else null
  const PyValue* state() const;                   // null without BUILD
  const std::vector<PyValue>& appended() const;   // list items
  const std::vector<PyValue>& set_items() const;  // dict entries, alternating
  bool by_newobj() const;                         // type.__new__(*args), else callable(*args)

  // Changes, seen through every copy.
  // Callers know the kind; the last of equal keys counts.
  void append(PyValue item);                  // to a list, set or object
  void set_item(PyValue key, PyValue value);  // to a dict or object, at the end
  void set_state(PyValue state);              // of an object

  friend bool operator==(const PyValue& a, const PyValue& b);  // same kinds, contents and order

 private:
  friend class PickleReader;
  friend class PickleNodes;
  struct Extent {  // of a node with all below it, to PickleNodes
    static constexpr std::uint32_t kOpen = UINT32_MAX;  // its depth while it is being walked over
    std::uint32_t depth = 0;                            // 0: nobody was there
    float length = 0;  // of a walk over it, which visits shared parts again: nodes, and text / 16
  };
  struct Node {
    std::string text;            // string, bytes, big integer; a global's "module\nname"
    std::vector<PyValue> items;  // of a container; an object's parts (pickle_value.cpp)
    Extent extent = {};
  };
  PyValue(Kind kind, std::string text, std::vector<PyValue> items)
      : kind_(kind), node_(std::make_shared<Node>(Node{std::move(text), std::move(items), {}})) {}
  static PyValue object(PyValue callable, PyValue args, bool by_newobj, PyValue kwargs);
  void expect(Kind kind, std::string_view where) const;
  const std::vector<PyValue>& part(std::size_t index) const;
  PyValue& own_part(std::size_t index);  // of an object

  Kind kind_ = Kind::none;
  union {
    std::int64_t integer_ = 0;
    double real_;
  };
  std::shared_ptr<Node> node_;
};

std::string_view name_of(PyValue::Kind kind);  // "an int", for errors

// The value at the start of `stream`.  `name` stands in errors, which are all Exit::bad_data and
// give the byte.  What the value keeps of memory is taken from `allowance`, without one from that
// of a file as large as the stream.  What follows the stream's end is an error unless `consumed`
// takes the length.
PyValue read_pickle(Bytes stream, const std::string& name, Allowance& allowance,
                    std::size_t* consumed = nullptr);
PyValue read_pickle(Bytes stream, const std::string& name);

// The stream of a value, as described above.
std::string write_pickle(const PyValue& value);

}  // namespace mt
