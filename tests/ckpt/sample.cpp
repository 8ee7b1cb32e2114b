#include "tests/ckpt/sample.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "ckpt/torch_types.h"

namespace mt::test {

constexpr std::int64_t kLayers = 3;
const std::string kStacked = "decoder.layers.mlp.linear_fc2.weight";
const std::string kReformulated = "optimizer.state.exp_avg.decoder.layers.mlp.linear_fc2.weight";

std::vector<SampleTensor> sample_tensors() {
  return {{kStacked, DType::f32, {kLayers, 4, 5}},
          {"embedding.word_embeddings.weight", DType::bf16, {10, 4}},
          {"half", DType::f16, {6}},
          {"double", DType::f64, {2, 2}},
          {"long", DType::i64, {3}},
          {"int", DType::i32, {3, 1}},
          {"short", DType::i16, {5}},
          {"char", DType::i8, {7}},
          {"byte", DType::u8, {1, 2, 3}},
          {"bool", DType::boolean, {9}},
          {"scalar", DType::f32, {}},
          {"empty", DType::f32, {0, 3}},
          {kReformulated, DType::f32, {kLayers, 4, 5}}};
}

OwnedTensor sample_content(const SampleTensor& tensor, std::int64_t iteration) {
  OwnedTensor content(tensor.dtype, tensor.shape);
  std::uint64_t state = static_cast<std::uint64_t>(iteration) * 0x9E3779B97F4A7C15u;
  for (const char c : tensor.key) state = (state ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  auto* const bytes = static_cast<unsigned char*>(content.view.data());
  for (std::size_t i = 0; i < content.view.bytes(); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    bytes[i] = static_cast<unsigned char>(state >> 57);  // below 0x80: no NaN in any float type
    if (tensor.dtype == DType::boolean) bytes[i] &= 1;
  }
  return content;
}

bool same_bytes(ConstTensor a, ConstTensor b) {
  return a.bytes() == b.bytes() &&
         (a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

static PyValue sample_common(TorchWriter& writer, std::int64_t iteration) {
  const float scale = 65536;
  PyValue args = PyValue::dict({{"tensor_model_parallel_size", 2},
                                {"params_dtype", torch_dtype(DType::bf16)},
                                {"no_save_rng", true},
                                {"spec", PyValue()},
                                {"norm_epsilon", 1e-5},
                                {"tokenizer_type", "GPT2BPETokenizer"}});
  PyValue scaler = PyValue::dict({{"scale", writer.tensor({&scale, DType::f32, {1}})}});
  return PyValue::dict(
      {{"args", PyValue::make(PyValue::global("argparse", "Namespace"), args)},
       {"checkpoint_version", 3.0},
       {"iteration", iteration},
       {"optimizer",
        PyValue::dict(
            {{"grad_scaler", scaler},
             {"param_groups", PyValue::list({PyValue::dict({{"betas", PyValue::tuple({0.9, 0.95})},
                                                            {"step", iteration}})})}})}});
}

void save_sample(const std::string& save_folder, std::int64_t iteration) {
  CheckpointSave save(save_folder, iteration);
  CheckpointSave::Content content;
  DistWriter first(save.folder(), 0), second(save.folder(), 1);
  for (const SampleTensor& tensor : sample_tensors()) {
    const OwnedTensor whole = sample_content(tensor, iteration);
    if (tensor.key == kStacked) {  // one layer a chunk, of which rows go to both writers
      for (std::int64_t layer = 0; layer < kLayers; ++layer) {
        const Tensor rows = whole.view.rows(layer, layer + 1).reshape({4, 5});
        first.add(tensor.key, tensor.shape, {layer, 0, 0}, rows.rows(0, 1).reshape({1, 1, 5}));
        second.add(tensor.key, tensor.shape, {layer, 1, 0}, rows.rows(1, 4).reshape({1, 3, 5}));
      }
    } else if (tensor.key == kReformulated) {  // layers cut apart, then two rows of the matrix each
      const Shape grid{kLayers, 2, 1, 10};
      const Tensor flat = whole.view.reshape({kLayers * 2, 10});
      for (std::int64_t block = 0; block < kLayers * 2; ++block)
        second.add(tensor.key, grid, {block / 2, block % 2, 0, 0},
                   flat.rows(block, block + 1).reshape({1, 1, 1, 10}));
      set_original_shape(content.mcore_data, tensor.key, tensor.shape);
    } else {
      first.add(tensor.key, whole.view);
    }
  }
  for (std::int64_t layer = 0; layer < kLayers; ++layer)
    first.add_object(
        concat("decoder.layers.mlp.linear_fc2._extra_state/shard_", layer, "_", kLayers),
        PyValue::list({PyValue()}));
  content.files = {first.close(), second.close()};
  content.files = unpack_files(as_bytes(pack_files(content.files)), "sample");
  content.common = sample_common(save.common_writer(), iteration);
  content.manifest_extra = R"({"tokenizer":"none"})";
  save.finish(content);
  save.publish();
}

void check_sample(const CheckpointPlace& place) {
  const MegatronCheckpoint checkpoint(place.folder);
  const auto expect = [&](bool holds, const std::string& what) {
    if (!holds) fail(Exit::difference, place.folder, ": ", what, " differs");
  };
  expect(checkpoint.manifest_extra() == R"({"tokenizer":"none"})", "manifest's extra");
  expect(checkpoint.common().at("iteration", "").as_integer("") == place.iteration, "iteration");
  expect(checkpoint.common().at("args", "").at("norm_epsilon", "").as_real("") == 1e-5, "args");
  OwnedTensor scale(DType::f32, {1});
  checkpoint.read_common_tensor(
      checkpoint.common().at("optimizer", "").at("grad_scaler", "").at("scale", ""), scale.view);
  expect(scale.view.as<float>()[0] == 65536, "scale");
  expect(checkpoint.tensors().tensors().size() == sample_tensors().size(), "number of tensors");
  expect(checkpoint.tensors().objects().size() == kLayers, "number of objects");
  for (const SampleTensor& tensor : sample_tensors()) {
    const OwnedTensor expected = sample_content(tensor, place.iteration);
    const OwnedTensor found(tensor.dtype, tensor.shape);
    const std::vector<std::int64_t> origin(static_cast<std::size_t>(tensor.shape.rank()), 0);
    checkpoint.tensors().read_original(tensor.key, Shape(origin), found.view);
    expect(same_bytes(expected.view, found.view), tensor.key);
  }
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "mt-test-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr)
    fail_errno(pattern, "cannot create", Exit::cannot_create);
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

}  // namespace mt::test
