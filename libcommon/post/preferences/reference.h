// Reference: what the model that a run began with says of its texts, as the run's folder keeps it,
// so that the run goes on to the bit.  reference.json:
//   {"schema":"mt-reference/1","data":HASH,"train":[number…],"valid":[number…]}
// where a sample's numbers are the log-probabilities of its texts, then zeroes, as many as the
// sample with the most texts has, and HASH is of the samples' tokens and of which of them count;
// or, of a run whose texts are not there before it begins, which model that was, an absolute path:
//   {"schema":"mt-reference/2","model":PATH}
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "post/data/packed_samples.h"

namespace mt {

class JsonObject;

struct Reference {
  std::vector<double> train, valid;

  void write(const std::string& folder, const std::string& hash) const;
  // Exit::no_input where the folder has none; Exit::bad_data where it is of other samples, or none.
  void read(const std::string& folder, const std::string& hash);

 private:
  void take(const JsonObject& object, const std::string& hash);
};

void write_reference_model(const std::string& folder, const std::string& path);
// Exit::no_input where the folder has none; Exit::bad_data where it is of another kind.
std::string read_reference_model(const std::string& folder);

std::string hash_of(const Packed& train, const Packed* valid);

}  // namespace mt
