// The vocabulary of communication. A communicator is a fixed, ordered group of ranks.
//
// Every call is collective over the group unless said: all ranks make the same calls in
// the same order with the same counts. Sums are taken in rank order in f32 and rounded
// once, so a result depends neither on how a buffer is cut nor on which algorithm carried
// it. A group of one is valid everywhere and moves nothing.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "llmtrain/tensor/tensor_view.hpp"

namespace llmtrain {

// Elements that this rank has sent, by kind, and the time that the calls took, waiting
// for other ranks included. For a group of N and a tensor of n elements an all_gather or
// reduce_scatter counts (N-1)/N n, an all_reduce twice that, and a message n.
struct Traffic {
  index_t all_gather = 0, reduce_scatter = 0, all_reduce = 0, messages = 0;
  double seconds = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // slice = sum over ranks of that rank's full[rank() * n, ...]; full has size() * n
  // elements, slice n; slice may lie in full at its own place, and nowhere else.
  void reduce_scatter(TensorView slice, TensorView full);
  // full[r * n, ...] = slice of rank r, for all r; slice may lie in full at its own
  // place.
  void all_gather(TensorView full, TensorView slice);
  // x = sum over ranks of x; any count.
  void all_reduce(TensorView x);

  // Messages between two ranks; those of one pair and tag arrive in the order of sending. Not
  // collective.
  // Starts to send x, which must stay unchanged until finish_send() of the ticket; completes
  // when the other rank receives.
  using Ticket = std::int64_t;
  Ticket send(TensorView x, int to, int tag);
  void finish_send(Ticket ticket);
  // Waits for a message of x's size.
  void receive(TensorView x, int from, int tag);

  // The values of each rank, one rank after another; host data, such as partial norms and
  // flags. All ranks give equally many.
  virtual std::vector<double> all_gather(std::span<const double> values) = 0;
  // Bytes of any length of each rank, in rank order, on every rank.
  virtual std::vector<std::string> all_gather(const std::string& bytes) = 0;
  // The bytes of rank `root` on every rank.
  virtual std::string broadcast(const std::string& bytes, int root) = 0;
  virtual void barrier() = 0;

  // The ranks with the same color, ordered by their rank here.
  virtual std::unique_ptr<Communicator> split(int color) = 0;

  const Traffic& traffic() const { return traffic_; }

 protected:
  virtual void do_reduce_scatter(TensorView slice, TensorView full) = 0;
  virtual void do_all_gather(TensorView full, TensorView slice) = 0;
  virtual void do_all_reduce(TensorView x) = 0;
  virtual Ticket do_send(TensorView x, int to, int tag) = 0;
  virtual void do_finish_send(Ticket ticket) = 0;
  virtual void do_receive(TensorView x, int from, int tag) = 0;

 private:
  Traffic traffic_;
};

// A group of one.
std::unique_ptr<Communicator> make_self_communicator();

// Pretends to be rank `rank` of `size`: moves nothing, counts traffic. For the meta
// device.
std::unique_ptr<Communicator> make_counting_communicator(int rank, int size);

}  // namespace llmtrain
