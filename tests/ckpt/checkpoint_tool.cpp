// ckpt_tool: makes and dumps checkpoints for scripts/check-torch-checkpoint.py, and saves in a loop
// to be killed.
//   ckpt_tool make SAVE ITERATION     saves the sample checkpoint
//   ckpt_tool dump FOLDER OUT         every tensor of a distributed checkpoint as OUT/N.bin, and a
//   line
//                                     "N DTYPE EXTENT,EXTENT,... KEY" each on stdout
//   ckpt_tool loop SAVE               saves iterations 1, 2, ... 9 again and again; prints each one
//   when
//                                     it is published
#include <cstdio>
#include <iostream>
#include <string>

#include "base/error.h"
#include "tests/ckpt/sample.h"

static void dump(const std::string& folder, const std::string& out) {
  const mt::DistReader reader(folder);
  int number = 0;
  for (const auto& [key, tensor] : reader.tensors()) {
    const mt::Shape shape = tensor.original_shape.value_or(tensor.shape);
    const mt::test::OwnedTensor content(tensor.dtype.value(), shape);
    const std::vector<std::int64_t> origin(static_cast<std::size_t>(shape.rank()), 0);
    reader.read_original(key, mt::Shape(origin), content.view);
    mt::File file = mt::File::create(out + "/" + std::to_string(number) + ".bin");
    file.write({static_cast<const std::byte*>(content.view.data()), content.view.bytes()});
    std::cout << number++ << ' ' << tensor.dtype_name << ' ';
    for (const std::int64_t extent : shape.extents()) std::cout << extent << ',';
    std::cout << ' ' << key << '\n';
  }
}

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    if (words.size() == 3 && words[0] == "make") {
      mt::test::save_sample(words[1], std::stoll(words[2]));
    } else if (words.size() == 3 && words[0] == "dump") {
      dump(words[1], words[2]);
    } else if (words.size() == 2 && words[0] == "loop") {
      for (std::int64_t i = 0;; ++i) {
        mt::test::save_sample(words[1], i % 9 + 1);
        std::cout << i % 9 + 1 << std::endl;
      }
    } else {
      std::cerr << "ckpt_tool: expected make, dump or loop\n";
      return 64;
    }
  } catch (const mt::Error& error) {
    std::cerr << "ckpt_tool: " << error.what() << '\n';
    return static_cast<int>(error.code());
  }
}
