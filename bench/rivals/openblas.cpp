#include "rivals/rivals.hpp"

#include <cblas.h>

namespace bench::openblas {

Call matmul(const Matmul<double>& work) {
  openblas_set_num_threads(rival_threads);
  return [work] {
    const int n = work.size;
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, work.a, n, work.b, n, 0, work.c, n);
  };
}

}  // namespace bench::openblas
