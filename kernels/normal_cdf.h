// kernels/normal_cdf.h: the normal distribution function (1 + erf(x / sqrt 2)) / 2 to 3e-7:
//   1/2 + x p(x^2) / q(x^2) for |x| <= bound, where rounding makes it exactly 1 and 0
// from a minimax fit of that form (relative error of the quotient 3e-8 for |x| < 5.7).
#pragma once

namespace mt {

struct NormalCdf {
  float bound = 5.41f;
  // From the highest power of x^2.
  float p[6] = {2.16963359e-8f, 6.28924981e-6f, 1.73757710e-4f,
                4.70655644e-3f, 3.44381992e-2f, 3.98942270e-1f};
  float q[6] = {1.16198347e-6f, 7.47086310e-5f, 1.91316496e-3f,
                2.89636875e-2f, 2.52990002e-1f, 1.0f};
};

}  // namespace mt
