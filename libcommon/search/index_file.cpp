#include "search/index_file.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace mt {
namespace {

constexpr std::int64_t kMostIds = std::int64_t{1} << 48;  // numbers of vectors are smaller
constexpr std::int64_t kUnused = 1 << 20;  // what faiss writes where it no longer has numbers

// --- Reading -------------------------------------------------------------------------------------

class IndexReader {
 public:
  explicit IndexReader(const std::string& path) : path_(path), file_(path), rest_(file_.bytes()) {}

  VectorIndex read() {
    VectorIndex index;
    std::string kind = word();
    Head outer;
    if (kind == "IxPT") {
      outer = head();
      const auto count = get<std::int32_t>();
      if (count < 1 || count > 16) damaged("has ", count, " transforms");
      for (std::int32_t i = 0; i < count; ++i) index.rotations.push_back(rotation());
      kind = word();
    }
    if (kind == "IxF2" || kind == "IxFI")
      index.kind = flat(kind);
    else if (kind == "IwFl" || kind == "IwPQ")
      index.kind = ivf(kind);
    else
      refuse(kind);
    if (!rest_.empty()) damaged("has ", rest_.size(), " bytes behind its end");
    check_columns(index);
    return index;
  }

 private:
  struct Head {
    std::int64_t columns = 0, size = 0;
    bool trained = false, inner = false;
  };

  template <class... Parts>
  [[noreturn]] void damaged(const Parts&... parts) const {
    fail(Exit::bad_data, path_, ": is no index of faiss's, or a damaged one: ", parts...);
  }
  [[noreturn]] void refuse(const std::string& kind) const {
    if (kind.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789") !=
        std::string::npos)
      damaged("begins with no name of a kind of index");
    fail(Exit::bad_data, path_, ": is an index of faiss's kind ", kind,
         ", expected IxF2, IxFI, IwFl or IwPQ, or IxPT with one of them");
  }
  Bytes take(std::uint64_t bytes) {
    if (bytes > rest_.size()) damaged("ends early");
    const Bytes taken = rest_.first(bytes);
    rest_ = rest_.subspan(bytes);
    return taken;
  }
  template <class T>
  T get() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string word() { return std::string(as_text(take(4))); }
  template <class T>
  std::vector<T> numbers(std::uint64_t count) {
    if (count > rest_.size() / sizeof(T)) damaged("ends early");
    std::vector<T> values(count);
    if (count > 0) std::memcpy(values.data(), take(count * sizeof(T)).data(), count * sizeof(T));
    return values;
  }
  template <class T>
  std::vector<T> list() {
    return numbers<T>(get<std::uint64_t>());
  }

  Head head() {
    Head h;
    h.columns = get<std::int32_t>();
    h.size = get<std::int64_t>();
    take(2 * sizeof(std::int64_t));
    h.trained = get<std::uint8_t>() != 0;
    const auto metric = get<std::int32_t>();
    if (h.columns < 1 || h.size < 0) damaged("has ", h.size, " vectors of ", h.columns, " columns");
    if (metric != 0 && metric != 1)
      fail(Exit::bad_data, path_, ": is an index by metric ", metric,
           " of faiss's, expected 0, inner products, or 1, squared distances");
    h.inner = metric == 0;
    return h;
  }

  Rotation rotation() {
    const std::string kind = word();
    if (kind == "PcAm" || kind == "Pcam") {
      take(sizeof(float) * (kind == "Pcam" ? 2 : 1));
      take(1 + sizeof(std::int32_t));
      for (int i = 0; i < 3; ++i) list<float>();  // means, eigenvalues, all components
    } else if (kind != "LTra" && kind != "rrot") {
      fail(Exit::bad_data, path_, ": has a transform of faiss's kind ", kind,
           ", expected LTra, rrot or PcAm");
    }
    const bool has_bias = get<std::uint8_t>() != 0;
    Rotation r;
    r.matrix = list<float>();
    r.bias = list<float>();
    r.in = get<std::int32_t>();
    r.out = get<std::int32_t>();
    const bool trained = get<std::uint8_t>() != 0;
    if (r.in < 1 || r.out < 1 || std::ssize(r.matrix) != r.in * r.out || !trained ||
        (has_bias && std::ssize(r.bias) != r.out))
      damaged("a transform is not what its sizes say, or not trained");
    if (!has_bias) r.bias.clear();
    return r;
  }

  FlatIndex flat(const std::string& kind) {
    const Head h = head();
    FlatIndex index{.columns = h.columns, .inner = kind == "IxFI", .vectors = list<float>()};
    if (h.inner != index.inner || std::ssize(index.vectors) / h.columns != h.size ||
        std::ssize(index.vectors) % h.columns != 0)
      damaged("does not have the ", h.size, " vectors that it says");
    return index;
  }

  Hnsw graph(std::int64_t vectors) {
    Hnsw g;
    g.probabilities = list<double>();
    g.cumulative = list<std::int32_t>();
    g.levels = list<std::int32_t>();
    g.offsets = list<std::uint64_t>();
    g.neighbors = list<std::int32_t>();
    g.entry = get<std::int32_t>();
    g.max_level = get<std::int32_t>();
    g.ef_construction = get<std::int32_t>();
    g.ef_search = get<std::int32_t>();
    take(sizeof(std::int32_t));
    bool whole = std::ssize(g.levels) == vectors && std::ssize(g.offsets) == vectors + 1 &&
                 !g.cumulative.empty() && g.cumulative[0] == 0 &&
                 std::ranges::is_sorted(g.cumulative) && g.offsets.back() == g.neighbors.size() &&
                 g.entry >= (vectors > 0 ? 0 : -1) && g.entry < vectors && g.ef_search > 0;
    for (std::size_t i = 0; whole && i < g.levels.size(); ++i) {
      const std::int32_t level = g.levels[i];
      whole = level >= 1 && level < std::ssize(g.cumulative) && g.offsets[i] <= g.offsets[i + 1] &&
              g.offsets[i + 1] - g.offsets[i] ==
                  static_cast<std::uint64_t>(g.cumulative[static_cast<std::size_t>(level)]);
    }
    for (std::size_t i = 0; whole && i < g.levels.size(); ++i)
      for (std::int32_t level = 0; whole && level < g.levels[i]; ++level)
        for (std::uint64_t at = g.offsets[i] + static_cast<std::uint64_t>(
                                                   g.cumulative[static_cast<std::size_t>(level)]);
             whole && at < g.offsets[i] + static_cast<std::uint64_t>(
                                              g.cumulative[static_cast<std::size_t>(level) + 1]);
             ++at) {
          const std::int32_t to = g.neighbors[at];
          whole = to >= -1 && to < vectors &&
                  (to < 0 || g.levels[static_cast<std::size_t>(to)] > level);
        }
    if (whole && vectors > 0)
      whole = g.max_level + 1 == g.levels[static_cast<std::size_t>(g.entry)];
    if (!whole) damaged("the graph of its centres is not one");
    return g;
  }

  IvfIndex ivf(const std::string& kind) {
    const Head h = head();
    IvfIndex index;
    const auto lists = get<std::uint64_t>();
    index.default_lists = static_cast<std::int64_t>(get<std::uint64_t>());
    if (h.inner) fail(Exit::bad_data, path_, ": is an IVF by inner products, expected distances");
    const std::string coarse = word();
    if (coarse == "IxF2") {
      index.centres = flat(coarse);
    } else if (coarse == "IHNf") {
      const Head of = head();
      index.graph = graph(of.size);
      if (word() != "IxF2") damaged("the centres of its graph are no Flat");
      index.centres = flat("IxF2");
    } else {
      fail(Exit::bad_data, path_, ": its centres are an index of faiss's kind ", coarse,
           ", expected IxF2 or IHNf");
    }
    if (lists == 0 || index.centres.columns != h.columns ||
        static_cast<std::uint64_t>(std::ssize(index.centres.vectors) / h.columns) != lists ||
        (index.graph && index.graph->levels.size() != lists) || index.default_lists < 1 ||
        !h.trained)
      damaged("its ", lists, " lists do not have as many centres, or it is not trained");
    if (get<std::uint8_t>() > 1) damaged("has a map of numbers");
    list<std::int64_t>();
    if (kind == "IwPQ") index.quantizer = quantizer(h.columns);
    read_lists(index, lists);
    if (index.size != h.size) damaged("its lists have ", index.size, " vectors of ", h.size);
    index.trained = true;
    return index;
  }

  ProductQuantizer quantizer(std::int64_t columns) {
    const bool residual = get<std::uint8_t>() != 0;
    const auto size = get<std::uint64_t>();
    ProductQuantizer q;
    q.columns = static_cast<std::int64_t>(get<std::uint64_t>());
    q.parts = static_cast<std::int64_t>(get<std::uint64_t>());
    const auto bits = get<std::uint64_t>();
    q.centres = list<float>();
    if (bits != ProductQuantizer::kBits || !residual)
      fail(Exit::bad_data, path_, ": has product codes of ", bits, " bits",
           residual ? "" : " of whole vectors", ", expected 8 bits of what is left of the centre");
    if (q.columns != columns || q.parts < 1 || q.columns % q.parts != 0 ||
        static_cast<std::int64_t>(size) != q.parts ||
        std::ssize(q.centres) != q.columns * ProductQuantizer::kCentres)
      damaged("its product quantizer is not what its sizes say");
    return q;
  }

  void read_lists(IvfIndex& index, std::uint64_t count) {
    if (word() != "ilar") damaged("its lists are not in the file");
    const auto lists = get<std::uint64_t>(), size = get<std::uint64_t>();
    if (lists != count || static_cast<std::int64_t>(size) != index.code_size())
      damaged("has ", lists, " lists of codes of ", size, " bytes");
    std::vector<std::uint64_t> sizes(lists);
    const std::string form = word();
    const std::vector<std::uint64_t> told = list<std::uint64_t>();
    if (form == "full" && told.size() == lists) {
      sizes = told;
    } else if (form == "sprs" && told.size() % 2 == 0) {
      for (std::size_t i = 0; i < told.size(); i += 2) {
        if (told[i] >= lists) damaged("has a list ", told[i], " of ", lists);
        sizes[told[i]] = told[i + 1];
      }
    } else {
      damaged("the sizes of its lists are not there");
    }
    index.lists.resize(lists);
    for (std::size_t i = 0; i < lists; ++i) {
      if (sizes[i] > rest_.size() / (size + sizeof(std::int64_t))) damaged("ends early");
      index.lists[i].codes = numbers<std::uint8_t>(sizes[i] * size);
      index.lists[i].ids = numbers<std::int64_t>(sizes[i]);
      for (const std::int64_t id : index.lists[i].ids)
        if (id < 0 || id >= kMostIds) damaged("has a vector of number ", id);
      index.size += static_cast<std::int64_t>(sizes[i]);
    }
  }

  void check_columns(const VectorIndex& index) const {
    std::int64_t columns = index.columns();
    for (const Rotation& r : index.rotations) {
      if (r.in != columns) damaged("its transforms do not fit together");
      columns = r.out;
    }
    const auto* const ivf = std::get_if<IvfIndex>(&index.kind);
    if ((ivf ? ivf->centres.columns : std::get<FlatIndex>(index.kind).columns) != columns)
      damaged("its transforms do not fit its vectors");
  }

  std::string path_;
  MappedFile file_;
  Bytes rest_;
};

// --- Writing -------------------------------------------------------------------------------------

class IndexWriterOf {
 public:
  explicit IndexWriterOf(const std::function<void(Bytes)>& write) : write_(write) {}

  void write(const VectorIndex& index) {
    const auto* const flat = std::get_if<FlatIndex>(&index.kind);
    if (!index.rotations.empty()) {
      word("IxPT");
      head(index.columns(), index.size(), flat && flat->inner);
      put(static_cast<std::int32_t>(index.rotations.size()));
      for (const Rotation& rotation : index.rotations) write_rotation(rotation);
    }
    if (flat)
      write_flat(*flat);
    else
      write_ivf(std::get<IvfIndex>(index.kind));
  }

 private:
  void word(std::string_view text) { write_(as_bytes(text)); }
  template <class T>
  void put(T value) {
    write_(std::as_bytes(std::span<const T, 1>(&value, 1)));
  }
  template <class T>
  void numbers(const std::vector<T>& values) {
    write_(std::as_bytes(std::span(values)));
  }
  template <class T>
  void list(const std::vector<T>& values) {
    put(static_cast<std::uint64_t>(values.size()));
    numbers(values);
  }
  void head(std::int64_t columns, std::int64_t size, bool inner) {
    put(static_cast<std::int32_t>(columns));
    put(size);
    put(kUnused);
    put(kUnused);
    put(std::uint8_t{1});  // trained
    put(std::int32_t{inner ? 0 : 1});
  }
  void write_rotation(const Rotation& rotation) {
    word("LTra");
    put(static_cast<std::uint8_t>(!rotation.bias.empty()));
    list(rotation.matrix);
    list(rotation.bias);
    put(static_cast<std::int32_t>(rotation.in));
    put(static_cast<std::int32_t>(rotation.out));
    put(std::uint8_t{1});
  }
  void write_flat(const FlatIndex& index) {
    word(index.inner ? "IxFI" : "IxF2");
    head(index.columns, std::ssize(index.vectors) / index.columns, index.inner);
    list(index.vectors);
  }
  void write_ivf(const IvfIndex& index) {
    const std::int64_t columns = index.centres.columns;
    word(index.quantizer ? "IwPQ" : "IwFl");
    head(columns, index.size, false);
    put(static_cast<std::uint64_t>(index.lists.size()));
    put(static_cast<std::uint64_t>(index.default_lists));
    if (index.graph) {
      const Hnsw& g = *index.graph;
      word("IHNf");
      head(columns, std::ssize(g.levels), false);
      list(g.probabilities);
      list(g.cumulative);
      list(g.levels);
      list(g.offsets);
      list(g.neighbors);
      for (const std::int32_t number : {g.entry, g.max_level, g.ef_construction, g.ef_search, 1})
        put(number);
    }
    write_flat(index.centres);
    put(std::uint8_t{0});   // no map of numbers
    put(std::uint64_t{0});  // in it
    if (index.quantizer) {
      put(std::uint8_t{1});
      put(static_cast<std::uint64_t>(index.quantizer->parts));
      put(static_cast<std::uint64_t>(index.quantizer->columns));
      put(static_cast<std::uint64_t>(index.quantizer->parts));
      put(static_cast<std::uint64_t>(ProductQuantizer::kBits));
      list(index.quantizer->centres);
    }
    write_lists(index);
  }
  void write_lists(const IvfIndex& index) {
    word("ilar");
    put(static_cast<std::uint64_t>(index.lists.size()));
    put(static_cast<std::uint64_t>(index.code_size()));
    std::vector<std::uint64_t> all, some;
    for (std::size_t i = 0; i < index.lists.size(); ++i) {
      all.push_back(index.lists[i].ids.size());
      if (all.back() > 0) some.insert(some.end(), {i, all.back()});
    }
    const bool full = some.size() / 2 > index.lists.size() / 2;
    word(full ? "full" : "sprs");
    list(full ? all : some);
    for (const IvfIndex::List& of : index.lists) {
      numbers(of.codes);
      numbers(of.ids);
    }
  }

  const std::function<void(Bytes)>& write_;
};

}  // namespace

VectorIndex read_index(const std::string& path) { return IndexReader(path).read(); }

void write_index(const VectorIndex& index, const std::function<void(Bytes)>& write) {
  IndexWriterOf(write).write(index);
}

}  // namespace mt
