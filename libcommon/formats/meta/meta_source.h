// A Llama as Meta publishes it (formats/names/meta.h), as a ModelSource.
#pragma once

#include <string>

#include "formats/hugging_face/hugging_face_source.h"
#include "formats/names/meta.h"

namespace mt {

class MetaSource : public HuggingFaceSource {
 public:
  MetaSource(const std::string& folder, const ModelSourceOptions& options);

 protected:
  std::vector<ForeignName> names_of(const Param& row) const override {
    return meta_tensors(*config_, row);
  }
};

}  // namespace mt
