// Reference: what the model that a run began with says of its texts, as the run's folder keeps it,
// so that the run goes on to the bit.  reference.json:
//   {"schema":"mt-reference/1","data":HASH,"train":[number…],"valid":[number…]}
// where a sample's numbers are the log-probabilities of its texts, then zeroes, as many as the
// sample with the most texts has, and HASH is of the samples' tokens and of which of them count.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "post/data/packed_samples.h"

namespace mt {

struct Reference {
  std::vector<double> train, valid;

  void write(const std::string& folder, const std::string& hash) const;
  // Exit::no_input where the folder has none; Exit::bad_data where it is of other samples, or none.
  void read(const std::string& folder, const std::string& hash);
};

std::string hash_of(const Packed& train, const Packed* valid);

}  // namespace mt
