// ImageTree: a folder of images of several classes, as torchvision's ImageFolder reads one: each
// folder in it is a class, in the order of their names, and all files in that and in folders below
// are its images, in the order of their folders' paths, then of their names.  Other files than
// images are passed over.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mt {

class ImageTree {
 public:
  // Which part of it is taken: the first classes, and of each class the first images, as many as
  // these shares come to, rounded down (Megatron-LM core_v0.12.1,
  // megatron/legacy/data/image_folder.py).
  struct Shares {
    double classes = 1, of_class = 1;
  };
  // Throws Exit::no_input where there is no such folder, or no class or no image in it, and
  // Exit::bad_data for an image of a format that is not read.
  ImageTree(const std::string& folder, const Shares& shares);

  const std::string& path() const { return folder_; }
  const std::vector<std::string>& classes() const { return classes_; }  // all, taken or not
  std::int64_t size() const { return static_cast<std::int64_t>(images_.size()); }
  const std::string& image(std::int64_t k) const { return at(k).path; }
  std::int32_t label(std::int64_t k) const { return at(k).label; }  // number of the class

 private:
  struct Entry {
    std::string path;
    std::int32_t label = 0;
  };
  const Entry& at(std::int64_t k) const { return images_[static_cast<std::size_t>(k)]; }

  std::string folder_;
  std::vector<std::string> classes_;
  std::vector<Entry> images_;
};

}  // namespace mt
