// Texts with images that a LLaVA continues, many at a time (testdata/models/llava.jsonl).
#include <gtest/gtest.h>

#include <deque>
#include <fstream>

#include "base/json_object.h"
#include "image/image.h"
#include "infer/engine.h"
#include "infer/generate.h"
#include "infer/image_pass.h"

namespace mt {
namespace {

const std::string kData = MT_TESTDATA;

using Ids = std::vector<std::int32_t>;

struct Asked {
  std::string text;
  std::shared_ptr<const ImageStates> images;
  Ids said;
};

class ImageEngine : public testing::Test {
 protected:
  ImageEngine() {
    DeviceOptions compute{.dtype = "fp32"};
    compute.complete(true);
    loaded_ = load_to_continue(kData + "/models/llava", {}, compute);
    about_.emplace(completion_model(loaded_));
    ImagePass pass(*loaded_.model, 1);
    std::ifstream file(kData + "/models/llava.jsonl");
    simdjson::dom::parser parser;
    for (std::string text; std::getline(file, text);) {
      const JsonObject line(parser.parse(text), "llava.jsonl");
      if (!line.has("folder") || line.text("folder") != "llava") continue;
      std::vector<Image> images;
      for (const simdjson::dom::element image : line.member("images").get_array())
        images.push_back(read_image(kData + "/images/" + std::string(image.get_string().value())));
      Asked& asked = asked_.emplace_back();
      asked.text = line.text("text");
      if (!images.empty()) asked.images = pass.run(images);
      for (const simdjson::dom::element id : line.member("said").get_array())
        asked.said.push_back(static_cast<std::int32_t>(id.get_int64().value()));
    }
  }

  // What is made of each, one behind the other where `together` is 1.
  std::vector<Ids> answers(const std::vector<Asked>& asked, std::int64_t together,
                           std::int64_t page) {
    Engine engine(*loaded_.model, {.vocab_size = about_->vocab_size,
                                   .limits = {.max_requests = together, .threads = 1},
                                   .page_tokens = page});
    std::deque<Completion> completions;
    for (const Asked& one : asked) {
      CompletionOptions options{.num_tokens = 12, .ignore_eod = true};
      options.sampling.temperature = 0;
      options.images = one.images;
      engine.submit(completions.emplace_back(*about_, one.text, options, 0, 0));
    }
    while (engine.step()) continue;
    std::vector<Ids> made;
    for (const Completion& completion : completions)
      made.emplace_back(completion.made().begin(), completion.made().end());
    return made;
  }

  LoadedModel loaded_;
  std::optional<CompletionModel> about_;
  std::vector<Asked> asked_;
};

// Pieces of a prompt that end within an image, at its ends, or behind all.
TEST_F(ImageEngine, SaysWhatTransformersDoesInPiecesOfAnySize) {
  ASSERT_EQ(asked_.size(), 3U);
  for (const std::int64_t page : {1, 2, 4, 128})
    for (const std::int64_t together : {1, 3}) {
      const std::vector<Ids> made = answers(asked_, together, page);
      for (std::size_t i = 0; i < asked_.size(); ++i)
        EXPECT_EQ(made[i], asked_[i].said) << asked_[i].text << " in pieces of " << page;
    }
}

// Texts whose tokens are the same have each their own image: none begins with another's pages.
TEST_F(ImageEngine, TextsWithOtherImagesShareNothing) {
  ImagePass pass(*loaded_.model, 1);
  Asked other = asked_[1];
  const std::vector<Image> image{read_image(kData + "/images/420.jpg")};
  other.images = pass.run(image);
  const Ids alone = answers({other}, 1, 4)[0];
  EXPECT_NE(alone, asked_[1].said);
  const std::vector<Ids> made = answers({asked_[1], other, asked_[1]}, 1, 4);
  EXPECT_EQ(made[0], asked_[1].said);
  EXPECT_EQ(made[1], alone);
  EXPECT_EQ(made[2], asked_[1].said);
}

TEST_F(ImageEngine, AnImageIsMadeAsIfItWereAlone) {
  ImagePass pass(*loaded_.model, 2);
  const std::vector<Image> both{read_image(kData + "/images/420.jpg"),
                                read_image(kData + "/images/rgb8.png")};
  const auto together = pass.run(both), alone = pass.run(std::span(both).last(1));
  const std::int64_t rows = alone->hidden.shape()[0];
  EXPECT_EQ(std::memcmp(together->hidden.rows(rows, 2 * rows).data(), alone->hidden.data(),
                        alone->hidden.bytes()),
            0);
}

}  // namespace
}  // namespace mt
