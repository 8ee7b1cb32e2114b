#include <boost/asio/post.hpp>
#include <utility>

#include "base/error.h"
#include "serve/http_shared.h"

namespace mt {
namespace {

namespace asio = boost::asio;

constexpr std::size_t kMostQueued = std::size_t{16} << 20;  // bytes for a client that reads slowly

}  // namespace

void Exchange::Impl::leave() {
  std::function<void()> call;
  {
    const std::lock_guard lock(mutex);
    if (std::exchange(gone, true)) return;
    call = std::exchange(left, nullptr);
  }
  if (call) call();
  news.cancel();
}

Exchange::Exchange(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Exchange::~Exchange() = default;

const HttpRequest& Exchange::request() const { return impl_->request; }

void Exchange::tell() {
  asio::post(impl_->shared.io, [self = shared_from_this()] { self->impl_->news.cancel(); });
}

void Exchange::answer(int status, std::string_view type, std::string body, Headers headers) {
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->status != 0) fail(Exit::internal, "a request is answered twice");
    impl_->status = status;
    impl_->type = type;
    impl_->headers = std::move(headers);
    impl_->pieces.push_back(std::move(body));
    impl_->ended = true;
  }
  tell();
}

void Exchange::begin_stream(std::string_view type, Headers headers, std::string_view ping) {
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->status != 0) fail(Exit::internal, "a request is answered twice");
    impl_->status = 200;
    impl_->type = type;
    impl_->headers = std::move(headers);
    impl_->ping = ping;
    impl_->stream = true;
  }
  tell();
}

void Exchange::send(std::string piece) {
  if (piece.empty()) return;
  bool reads = true;
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->gone) return;
    impl_->queued += piece.size();
    impl_->pieces.push_back(std::move(piece));
    reads = impl_->queued <= kMostQueued;
  }
  if (reads) return tell();
  asio::post(impl_->shared.io, [self = shared_from_this()] { self->impl_->leave(); });
}

void Exchange::end_stream(bool whole) {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->ended = true;
    impl_->whole = whole;
  }
  tell();
}

void Exchange::when_gone(std::function<void()> left) {
  {
    const std::lock_guard lock(impl_->mutex);
    if (!impl_->gone) {
      impl_->left = std::move(left);
      return;
    }
  }
  left();
}

}  // namespace mt
