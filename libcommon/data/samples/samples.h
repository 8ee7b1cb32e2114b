// Samples: numbered samples of one kind, which is all that training knows of data.  Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/fields.h"

namespace mt {

class JsonWriter;
class Tokenizer;

class Samples {
 public:
  virtual ~Samples() = default;
  virtual const std::string& name() const = 0;  // for errors: the token file's
  virtual std::int64_t size() const = 0;
  virtual const FieldSpecs& fields() const = 0;
  // Fills those of the sample's fields that `sample` has, each [per_sample] of its FieldSpec's
  // dtype, in host memory; 0 <= k < size().
  virtual void get(std::int64_t k, const Fields& sample) const = 0;

  // What a sample is made of, with its text: lines for people, the first of them not of a text
  // alone, or members of a JSON object.
  virtual std::vector<std::string> lines(std::int64_t k, const Tokenizer& tokenizer) const = 0;
  virtual void write(std::int64_t k, const Tokenizer& tokenizer, JsonWriter& json) const = 0;

  // What the samples are drawn by: how many token files, and how many of their indexes were made
  // by this process or found in a cache.
  struct Indexes {
    std::int64_t files = 0, made = 0, found = 0;
  };
  virtual Indexes indexes() const = 0;
  // Whether several are best made at a time.
  virtual bool takes_long() const { return false; }
  // Throws Exit::bad_config where their own order cannot go on after `consumed` of them.
  virtual void check_consumed(std::int64_t /*consumed*/) const {}

 protected:
  Samples() = default;
  Samples(const Samples&) = default;
  Samples(Samples&&) = default;
  Samples& operator=(const Samples&) = default;
  Samples& operator=(Samples&&) = default;
};

}  // namespace mt
