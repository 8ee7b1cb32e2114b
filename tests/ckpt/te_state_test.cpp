// What Transformer Engine's modules remember: read as Python wrote it, and written as Python reads
// it (scripts/compare-te-state.py).
#include "ckpt/te_state.h"

#include "ckpt/torch_pickles.h"
#include "tests/ckpt/support.h"

namespace mt {
namespace {

using test::testdata;

void expect_golden(const std::optional<DelayedScales>& got) {
  ASSERT_TRUE(got);
  EXPECT_EQ(got->scales, (std::array<float, 3>{64, 112, 3584}));
  EXPECT_EQ(got->amaxes[0], (std::vector<float>{7, 5}));
  EXPECT_EQ(got->amaxes[1], (std::vector<float>{4, 3}));
  EXPECT_EQ(got->amaxes[2], (std::vector<float>{16, .5}));
}

TEST(TeState, IsReadAsPythonWroteIt) {
  for (const char* name : {"te_state.pickle", "te_state.pt"})
    expect_golden(decode_te_state(read_file(testdata(name)), name));
}

TEST(TeState, ComesBack) {
  const DelayedScales scales{{64, 112, 3584}, {{{7, 5}, {4, 3}, {16, .5}}}};
  for (const DelayedRecipe& recipe : {DelayedRecipe{}, DelayedRecipe{true, false, 2}})
    expect_golden(decode_te_state(encode_te_state(recipe, scales), "x"));
  const auto none = decode_te_state(encode_te_state({}, {}), "x");
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->amaxes[0].empty());
}

// As it lies in a file: a tensor of the pickle, a BytesIO of the older file, None, or nothing.
TEST(TeState, LiesInFiles) {
  for (const std::string& state : {read_file(testdata("te_state.pickle")),
                                   read_file(testdata("te_state.pt")), std::string()}) {
    TorchWriter writer;
    const PyValue value =
        te_state_value(state, [&](ConstTensor tensor) { return writer.tensor(tensor); });
    EXPECT_EQ(value.is_none(), state.empty());
    for (const PyValue& root : {value, PyValue::list({value})}) {
      std::string file;
      writer.write(root, "archive", [&](Bytes bytes) { file += as_text(bytes); });
      const TorchReader reader(as_bytes(file), "file");
      EXPECT_EQ(te_state_in(reader.value(), reader, "x"), state);
    }
  }
}

TEST(TeState, OthersHaveNoScales) {
  EXPECT_FALSE(decode_te_state("", "x"));
  EXPECT_FALSE(decode_te_state(write_pickle(PyValue()), "x"));
  EXPECT_FALSE(decode_te_state(
      write_pickle(PyValue::dict({{"recipe", PyValue::global("a", "MXFP8BlockScaling")}})), "x"));
}

// A tensor as a pickle has it.
PyValue tensor(const std::vector<float>& numbers, const std::vector<PyValue>& size,
               const std::vector<PyValue>& strides) {
  const std::string file = write_torch_storage({numbers.data(), DType::f32, {std::ssize(numbers)}});
  const PyValue storage =
      PyValue::call(PyValue::global("torch.storage", "_load_from_bytes"), {PyValue::bytes(file)});
  return PyValue::call(PyValue::global("torch._utils", "_rebuild_tensor_v2"),
                       {storage, 0, PyValue::tuple(size), PyValue::tuple(strides), false,
                        PyValue::call(PyValue::global("collections", "OrderedDict"), {})});
}

TEST(TeState, RefusesWhatIsNone) {
  const auto error = [](PyValue scale_fwd, PyValue history) {
    const PyValue two = tensor({1, 1}, {2}, {1}), rows = tensor({0, 0}, {1, 2}, {2, 1});
    const std::string state = write_pickle(PyValue::dict({{"scale_fwd", std::move(scale_fwd)},
                                                          {"amax_history_fwd", std::move(history)},
                                                          {"scale_bwd", two},
                                                          {"amax_history_bwd", rows}}));
    return test::error_of([&] { decode_te_state(state, "x"); });
  };
  const PyValue three = tensor({1, 1, 1}, {3}, {1}), row = tensor({0, 0, 0}, {1, 3}, {3, 1});
  EXPECT_EQ(error(three, row), "");
  EXPECT_EQ(error(tensor(std::vector<float>(6, 1), {6}, {1}), row),
            "x: scale_fwd: is [6], expected 3 numbers, as of one product");
  EXPECT_EQ(error(three, tensor({0, 0, 0, 0, 0, 0}, {2, 3}, {3, 1})),
            "x: histories of 2 and 1 steps");
  EXPECT_EQ(error(three, three),
            "x: amax_history_fwd: is [3], expected rows of 3 numbers, as of one product");
  EXPECT_EQ(error(three, tensor({}, {0, 3}, {3, 1})),
            "x: amax_history_fwd: is [0, 3], expected rows of 3 numbers, as of one product");
  EXPECT_EQ(error(PyValue(1.0), row), "x: scale_fwd: is no tensor with its storage");
  EXPECT_NE(error(tensor({1, 1, 1}, {1000}, {1}), row), "");
  const std::string whole = read_file(testdata("te_state.pickle"));
  for (std::size_t size = 1; size < whole.size(); ++size)
    EXPECT_NE(test::error_of([&] { decode_te_state(whole.substr(0, size), "x"); }), "") << size;
  const std::string archive = read_file(testdata("te_state.pt"));
  for (std::size_t size = 8; size < archive.size(); size += 7)
    EXPECT_NE(test::error_of([&] { decode_te_state(archive.substr(0, size), "x"); }), "") << size;
}

}  // namespace
}  // namespace mt
