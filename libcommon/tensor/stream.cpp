#include "tensor/stream.h"

namespace mt {

// A GPU's other queue, its scratch, and when the two part and meet.
struct Stream::Aside {
  Aside() = default;
  Aside(const Aside&) = delete;
  ~Aside() {
    if (handle == nullptr) return;
    device::destroy_stream(handle);
    device::destroy_event(parted);
    device::destroy_event(ended);
  }
  StreamHandle handle = nullptr;
  Buffer work = {};
  EventHandle parted = nullptr, ended = nullptr;
};

Stream::Stream(Device device, int threads) : device_(device) {
  if (device == Device::cpu) workers_ = std::make_unique<Workers>(threads);
  if (device == Device::cuda) handle_ = device::make_stream();
}

Stream::~Stream() {
  if (handle_ != nullptr) device::destroy_stream(handle_);
}

Stream::Clock::rep Stream::mark() const {
  if (handle_ == nullptr) return 0;
  const Clock::rep now = Clock::now().time_since_epoch().count(), before = waits_since_;
  waits_since_ = before == 0 || queues_ ? now : before;
  return before;
}

void Stream::unmark(Clock::rep before) const {
  if (handle_ == nullptr) return;
  waits_since_ = queues_ ? Clock::now().time_since_epoch().count() : before;
}

void Stream::synchronize() {
  if (handle_ == nullptr) return;
  const Call call(*this);
  device::synchronize(handle_);
}

void Stream::wait(EventHandle event) {
  const Call call(*this);
  device::wait(event);
}

std::optional<Stream::Clock::time_point> Stream::waits_since() const {
  const Clock::rep since = waits_since_;
  if (since == 0) return std::nullopt;
  return Clock::time_point(Clock::duration(since));
}

std::optional<Stream::Clock::time_point> Stream::queues_since() const {
  return queues_ ? waits_since() : std::nullopt;
}

void Stream::open_aside() {
  if (device_ == Device::cpu || aside_ != nullptr) return;
  aside_ = std::make_unique<Aside>();
  if (handle_ == nullptr) return;
  const Call call(*this);
  aside_->handle = device::make_stream();
  aside_->parted = device::make_event();
  aside_->ended = device::make_event();
}

void Stream::aside(const std::function<void()>& body) {
  if (handle_ == nullptr) return body();
  struct Change {  // of queues, and back however the body ends
    explicit Change(Stream& of) : stream(of) { swap(); }
    Change(const Change&) = delete;
    ~Change() { swap(); }
    void swap() const {
      std::swap(stream.handle_, stream.aside_->handle);
      std::swap(stream.work_, stream.aside_->work);
    }
    Stream& stream;
  };
  device::record(aside_->parted, handle_);
  device::wait(aside_->parted, aside_->handle);
  {
    const Change change(*this);
    body();
  }
  device::record(aside_->ended, aside_->handle);
}

void Stream::join() {
  if (handle_ != nullptr) device::wait(aside_->ended, handle_);
}

void* Stream::work(std::size_t bytes) {
  if (bytes > work_.bytes()) {
    if (captured_)
      fail(Exit::internal, "an operation needs ", bytes, " bytes of scratch, but ", work_.bytes(),
           " were reserved before work was captured");
    make_room(work_, bytes);
  }
  return work_.data();
}

void Stream::make_room(Buffer& work, std::size_t bytes) {
  synchronize();  // the operations before may still use the old one
  const Call call(*this);
  work = Buffer();
  work = Buffer(device_, bytes);
}

void Stream::reserve_work(std::size_t bytes) {
  make_room(work_, bytes / queues());
  if (aside_ != nullptr && handle_ != nullptr) make_room(aside_->work, bytes / queues());
}

}  // namespace mt
