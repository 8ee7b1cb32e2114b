// Reading of faiss's files (index_file.h).
#include "search/index_file.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "search/code_blocks.h"

namespace mt {
namespace {

constexpr std::int64_t kMostIds = std::int64_t{1} << 48;  // numbers of vectors are smaller
constexpr float kMostFactor = 1 << 20;

class IndexReader {
 public:
  explicit IndexReader(const std::string& path) : path_(path), file_(path), rest_(file_.bytes()) {}

  VectorIndex read() {
    std::string kind = word();
    const bool refined = kind == "IxRF";
    Head outer;
    if (refined) {
      outer = head();
      kind = word();
    }
    VectorIndex index = plain(kind);
    if (refined) read_refinement(index, outer);
    if (!rest_.empty()) damaged("has ", rest_.size(), " bytes behind its end");
    return index;
  }

 private:
  struct Head {
    std::int64_t columns = 0, size = 0;
    bool trained = false, inner = false;
  };

  // Of a kind, behind transforms or not.
  VectorIndex plain(std::string kind) {
    VectorIndex index;
    if (kind == "IxPT") {
      head();
      const auto count = get<std::int32_t>();
      if (count < 1 || count > VectorIndex::kMostRotations)
        damaged("has ", count, " transforms, expected 1 to ", VectorIndex::kMostRotations);
      for (std::int32_t i = 0; i < count; ++i) index.rotations.push_back(rotation());
      kind = word();
    }
    if (kind == "IxF2" || kind == "IxFI")
      index.kind = flat(kind);
    else if (kind == "IxSQ")
      index.kind = scalars();
    else if (kind == "IxPq" || kind == "IPfs")
      index.kind = products(kind);
    else if (kind == "IwFl" || kind == "IwPQ" || kind == "IwPf" || kind == "IwSq")
      index.kind = ivf(kind);
    else
      refuse(kind);
    check_columns(index);
    return index;
  }

  void read_refinement(VectorIndex& index, const Head& outer) {
    const std::string kind = word();
    if (kind == "IxSQ")
      index.refinement.emplace(scalars());
    else if (kind == "IxF2" || kind == "IxFI")
      index.refinement.emplace(flat(kind));
    else
      fail(Exit::bad_data, path_, ": is refined by an index of faiss's kind ", kind,
           ", expected IxF2, IxFI or IxSQ");
    Refinement& refinement = *index.refinement;
    refinement.factor = get<float>();
    if (!(refinement.factor >= 1 && refinement.factor <= kMostFactor))
      damaged("finds ", refinement.factor, " times what is asked for");
    const auto has_same = [&](const auto& finer) {
      return finer.width() == index.columns() && finer.size() == index.size();
    };
    if (!std::visit(has_same, refinement.index) || index.size() != outer.size ||
        index.next_id() > index.size() || is_inner(refinement.index) != is_inner(index.kind))
      damaged("it and what refines it do not have the same vectors");
  }

  static bool is_inner(const auto& kind) {
    const auto* const flat = std::get_if<FlatIndex>(&kind);
    return flat != nullptr && flat->inner;
  }

  template <class... Parts>
  [[noreturn]] void damaged(const Parts&... parts) const {
    fail(Exit::bad_data, path_, ": is no index of faiss's, or a damaged one: ", parts...);
  }
  [[noreturn]] void refuse(const std::string& kind) const {
    if (kind.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789") !=
        std::string::npos)
      damaged("begins with no name of a kind of index");
    fail(
        Exit::bad_data, path_, ": is an index of faiss's kind ", kind,
        ", expected IxF2, IxFI, IxSQ, IxPq, IPfs, IwFl, IwSq, IwPQ or IwPf, or one of them in IxPT "
        "or IxRF");
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
    if (kind == "VNrm") return normalization();
    if (kind == "PcAm" || kind == "Pcam") {
      take(sizeof(float) * (kind == "Pcam" ? 2 : 1));
      take(1 + sizeof(std::int32_t));
      for (int i = 0; i < 3; ++i) list<float>();  // means, eigenvalues, all components
    } else if (kind != "LTra" && kind != "rrot") {
      fail(Exit::bad_data, path_, ": has a transform of faiss's kind ", kind,
           ", expected LTra, rrot, PcAm or VNrm");
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

  Rotation normalization() {
    const auto norm = get<float>();
    if (norm != 2) fail(Exit::bad_data, path_, ": has a VNrm by the norm ", norm, ", expected 2");
    Rotation r{.to_length_1 = true};
    r.in = get<std::int32_t>();
    r.out = get<std::int32_t>();
    if (r.in < 1 || r.in != r.out || get<std::uint8_t>() == 0)
      damaged("a transform is not what its sizes say, or not trained");
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

  ScalarIndex scalars() {
    const Head h = head();
    if (h.inner) fail(Exit::bad_data, path_, ": is an IxSQ by inner products, expected distances");
    ScalarIndex index = {.quantizer = scalar_quantizer(h.columns), .codes = list<std::uint8_t>()};
    if (std::ssize(index.codes) / index.code_size() != h.size ||
        std::ssize(index.codes) % index.code_size() != 0)
      damaged("does not have the ", h.size, " vectors that it says");
    return index;
  }

  ScalarQuantizer scalar_quantizer(std::int64_t columns) {
    const auto number = get<std::int32_t>();
    take(sizeof(std::int32_t) + sizeof(float));  // how ranges were found
    ScalarQuantizer q{.columns = static_cast<std::int64_t>(get<std::uint64_t>())};
    const auto size = get<std::uint64_t>();
    q.ranges = list<float>();
    const auto* const known =
        std::ranges::find_if(ScalarQuantizer::kNames, [&](const ScalarQuantizer::Name& name) {
          return static_cast<std::int32_t>(name.kind) == number;
        });
    if (known == std::end(ScalarQuantizer::kNames))
      fail(Exit::bad_data, path_, ": has scalar codes of faiss's type ", number,
           ", expected those of SQ8, SQ6, SQ4, SQfp16 or SQbf16");
    q.kind = known->kind;
    if (q.columns != columns || static_cast<std::int64_t>(size) != q.code_size() ||
        std::ssize(q.ranges) != (q.has_ranges() ? 2 * columns : 0))
      damaged("its scalar quantizer is not what its sizes say");
    return q;
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
    if (kind == "IwPQ" || kind == "IwPf") read_products_of_lists(index, kind == "IwPf");
    if (kind == "IwSq") {
      index.quantizer = scalar_quantizer(h.columns);
      const auto size = get<std::uint64_t>();
      if (get<std::uint8_t>() == 0)
        fail(Exit::bad_data, path_,
             ": has scalar codes of whole vectors, expected those of what is left of the centre");
      if (static_cast<std::int64_t>(size) != index.bytes_in_list())
        damaged("its scalar codes are not what its sizes say");
    }
    if (index.fast)
      read_lists_of_blocks(index, lists);
    else
      read_lists(index, lists);
    if (index.count != h.size) damaged("its lists have ", index.count, " vectors of ", h.size);
    index.trained = true;
    return index;
  }

  ProductQuantizer product_quantizer(std::int64_t columns) {
    ProductQuantizer q;
    q.columns = static_cast<std::int64_t>(get<std::uint64_t>());
    q.parts = static_cast<std::int64_t>(get<std::uint64_t>());
    q.bits = static_cast<std::int64_t>(get<std::uint64_t>());
    q.centres = list<float>();
    if (q.bits != 8 && q.bits != 4)
      fail(Exit::bad_data, path_, ": has product codes of ", q.bits, " bits, expected 8 or 4");
    if (q.columns != columns || q.parts < 1 || q.columns % q.parts != 0 ||
        std::ssize(q.centres) != q.columns * q.part_centres())
      damaged("its product quantizer is not what its sizes say");
    return q;
  }

  void read_products_of_lists(IvfIndex& index, bool fast) {
    index.of_whole = get<std::uint8_t>() == 0;
    const auto size = get<std::uint64_t>();
    std::uint64_t parts = 0;
    if (fast) {
      index.fast.emplace().block = get<std::int32_t>();
      parts = get<std::uint64_t>();
      index.fast->way = get<std::int32_t>();
      index.fast->queries = get<std::int64_t>();
    }
    index.quantizer = product_quantizer(index.centres.columns);
    if (static_cast<std::int64_t>(size) != index.product()->code_size())
      damaged("its product codes are not what its sizes say");
    if (fast) check_fast_scan(index, parts);
  }

  // parts: of codes in blocks, an even number.
  void check_fast_scan(const IvfIndex& index, std::uint64_t parts) const {
    const std::int64_t block = index.fast->block;
    if (block < 1 || block > FastScan::kMostBlock || block % FastScan::kBlock != 0 ||
        index.product()->bits != 4 ||
        static_cast<std::int64_t>(parts) != 2 * index.product()->code_size())
      damaged("has blocks of ", block, " codes of ", parts, " parts of ", index.product()->bits,
              " bits");
  }

  // Codes of so many vectors.
  std::vector<std::uint8_t> codes_of_blocks(const IvfIndex& index, std::int64_t count) {
    const std::vector<std::uint8_t> blocks = list<std::uint8_t>();
    const std::int64_t block = index.fast->block, size = index.bytes_in_list();
    const std::int64_t full = std::ssize(blocks) / size / block;
    if (std::ssize(blocks) % size != 0 || std::ssize(blocks) / size % block != 0 ||
        count > full * block || count <= (full - 1) * block)
      damaged("has blocks of ", blocks.size(), " bytes for ", count, " vectors");
    return from_blocks(blocks, count, size, block);
  }

  IvfIndex products(const std::string& kind) {
    const Head h = head();
    if (h.inner)
      fail(Exit::bad_data, path_, ": is an ", kind, " by inner products, expected distances");
    IvfIndex index{.trained = h.trained, .in_lists = false};
    index.quantizer = product_quantizer(h.columns);  // whose centres bear out the columns
    index.centres = {.columns = h.columns,
                     .vectors = std::vector<float>(static_cast<std::size_t>(h.columns))};
    index.wanted = 1;
    IvfIndex::List& all = index.lists.emplace_back();
    if (kind == "IPfs") {
      read_fast_scan(index);
      all.codes = codes_of_blocks(index, h.size);
    } else {
      all.codes = list<std::uint8_t>();
    }
    const std::int64_t size = index.bytes_in_list();
    index.count = std::ssize(all.codes) / size;
    if (!h.trained || index.count != h.size || std::ssize(all.codes) % size != 0)
      damaged("does not have the ", h.size, " vectors that it says, or is not trained");
    all.ids.resize(static_cast<std::size_t>(index.count));
    std::iota(all.ids.begin(), all.ids.end(), std::int64_t{0});
    if (kind == "IPfs") return index;
    const auto way = get<std::int32_t>();
    if (way != 0)
      fail(Exit::bad_data, path_, ": is an IxPq that is searched in faiss's way ", way,
           ", expected 0, by distances from codes");
    take(sizeof(std::uint8_t) + sizeof(std::int32_t));  // of other ways
    return index;
  }

  void read_fast_scan(IvfIndex& index) {
    index.of_whole = true;
    index.fast.emplace().way = get<std::int32_t>();
    index.fast->block = get<std::int32_t>();
    index.fast->queries = get<std::int32_t>();
    take(sizeof(std::uint64_t));  // vectors, with those that fill the last block
    check_fast_scan(index, get<std::uint64_t>());
  }

  void read_lists_of_blocks(IvfIndex& index, std::uint64_t count) {
    if (word() != "ilbl") damaged("its lists are not in the file");
    const auto lists = get<std::uint64_t>();
    take(sizeof(std::uint64_t));  // the size of a code, or 2^64 - 1
    const auto block = get<std::int64_t>(), bytes = get<std::int64_t>();
    if (lists != count || block != index.fast->block || bytes != block * index.bytes_in_list())
      damaged("has ", lists, " lists of blocks of ", block, " codes in ", bytes, " bytes");
    index.wanted = static_cast<std::int64_t>(lists);
    index.lists.resize(lists);
    for (IvfIndex::List& of : index.lists) {
      of.ids = list<std::int64_t>();
      check_ids(of.ids);
      of.codes = codes_of_blocks(index, std::ssize(of.ids));
      index.count += std::ssize(of.ids);
    }
  }

  void check_ids(std::span<const std::int64_t> ids) const {
    for (const std::int64_t id : ids)
      if (id < 0 || id >= kMostIds) damaged("has a vector of number ", id);
  }

  void read_lists(IvfIndex& index, std::uint64_t count) {
    if (word() != "ilar") damaged("its lists are not in the file");
    const auto lists = get<std::uint64_t>(), size = get<std::uint64_t>();
    if (lists != count || static_cast<std::int64_t>(size) != index.bytes_in_list())
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
    index.wanted = static_cast<std::int64_t>(lists);
    index.lists.resize(lists);
    for (std::size_t i = 0; i < lists; ++i) {
      if (sizes[i] > rest_.size() / (size + sizeof(std::int64_t))) damaged("ends early");
      index.lists[i].codes = numbers<std::uint8_t>(sizes[i] * size);
      index.lists[i].ids = numbers<std::int64_t>(sizes[i]);
      check_ids(index.lists[i].ids);
      index.count += static_cast<std::int64_t>(sizes[i]);
    }
  }

  void check_columns(const VectorIndex& index) const {
    std::int64_t columns = index.columns();
    for (const Rotation& r : index.rotations) {
      if (r.in != columns) damaged("its transforms do not fit together");
      columns = r.out;
    }
    if (std::visit([](const auto& kind) { return kind.width(); }, index.kind) != columns)
      damaged("its transforms do not fit its vectors");
  }

  std::string path_;
  MappedFile file_;
  Bytes rest_;
};

}  // namespace

VectorIndex read_index(const std::string& path) { return IndexReader(path).read(); }

}  // namespace mt
