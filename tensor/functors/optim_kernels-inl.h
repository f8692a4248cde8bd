// tensor/functors/optim_kernels-inl.h: the kernels of the optimisers' steps: from an op's arguments
// to its lists and the numbers of its step. Included once per device inside the namespace of its
// kernels, after a function template `run_step(op, lists, step)`.

void sgd_step(const optim::TensorList& x, const optim::TensorList& g,
              const optim::TensorList& momentum_buffer, double lr, double momentum,
              double dampening, bool nesterov, bool first, double weight_decay, double keep,
              bool maximize) {
  const optim::TensorList none;
  run_step("sgd_step", {&x, &g, momentum != 0 ? &momentum_buffer : &none},
           optim::Sgd{lr, momentum, dampening, nesterov, first, {weight_decay, keep, maximize}});
}

void adam_step(const optim::TensorList& x, const optim::TensorList& g,
               const optim::TensorList& exp_avg, const optim::TensorList& exp_avg_sq,
               const optim::TensorList& max_exp_avg_sq, double rate, double correction,
               double beta1, double beta2, double eps, double weight_decay, double keep,
               bool maximize) {
  run_step("adam_step", {&x, &g, &exp_avg, &exp_avg_sq, &max_exp_avg_sq},
           optim::Adam{rate,
                       correction,
                       beta1,
                       beta2,
                       eps,
                       !max_exp_avg_sq.empty(),
                       {weight_decay, keep, maximize}});
}

void adagrad_step(const optim::TensorList& x, const optim::TensorList& g,
                  const optim::TensorList& sum, double rate, double eps, double weight_decay,
                  double keep, bool maximize) {
  run_step("adagrad_step", {&x, &g, &sum},
           optim::Adagrad{rate, eps, {weight_decay, keep, maximize}});
}

void adadelta_step(const optim::TensorList& x, const optim::TensorList& g,
                   const optim::TensorList& square_avg, const optim::TensorList& acc_delta,
                   double lr, double rho, double eps, double weight_decay, double keep,
                   bool maximize) {
  run_step("adadelta_step", {&x, &g, &square_avg, &acc_delta},
           optim::Adadelta{lr, rho, eps, {weight_decay, keep, maximize}});
}

void adamax_step(const optim::TensorList& x, const optim::TensorList& g,
                 const optim::TensorList& exp_avg, const optim::TensorList& exp_inf, double rate,
                 double beta1, double beta2, double eps, double weight_decay, double keep,
                 bool maximize) {
  run_step("adamax_step", {&x, &g, &exp_avg, &exp_inf},
           optim::Adamax{rate, beta1, beta2, eps, {weight_decay, keep, maximize}});
}

void asgd_step(const optim::TensorList& x, const optim::TensorList& g, const optim::TensorList& ax,
               double eta, double lambd, double mu, double weight_decay, double keep,
               bool maximize) {
  run_step("asgd_step", {&x, &g, &ax}, optim::Asgd{eta, lambd, mu, {weight_decay, keep, maximize}});
}

void nadam_step(const optim::TensorList& x, const optim::TensorList& g,
                const optim::TensorList& exp_avg, const optim::TensorList& exp_avg_sq, double rate,
                double mean_rate, double correction, double beta1, double beta2, double eps,
                double weight_decay, double keep, bool maximize) {
  run_step(
      "nadam_step", {&x, &g, &exp_avg, &exp_avg_sq},
      optim::Nadam{rate, mean_rate, correction, beta1, beta2, eps, {weight_decay, keep, maximize}});
}

void radam_step(const optim::TensorList& x, const optim::TensorList& g,
                const optim::TensorList& exp_avg, const optim::TensorList& exp_avg_sq, double rate,
                double scale, double beta1, double beta2, double eps, double weight_decay,
                double keep, bool maximize) {
  run_step("radam_step", {&x, &g, &exp_avg, &exp_avg_sq},
           optim::Radam{rate, scale, beta1, beta2, eps, {weight_decay, keep, maximize}});
}

void rmsprop_step(const optim::TensorList& x, const optim::TensorList& g,
                  const optim::TensorList& square_avg, const optim::TensorList& momentum_buffer,
                  const optim::TensorList& grad_avg, double lr, double alpha, double eps,
                  double momentum, double weight_decay, double keep, bool maximize) {
  const optim::TensorList none;
  run_step(
      "rmsprop_step", {&x, &g, &square_avg, momentum != 0 ? &momentum_buffer : &none, &grad_avg},
      optim::Rmsprop{lr, alpha, eps, momentum, !grad_avg.empty(), {weight_decay, keep, maximize}});
}

void rprop_step(const optim::TensorList& x, const optim::TensorList& g,
                const optim::TensorList& prev, const optim::TensorList& step_size, double less,
                double more, double least, double most, double weight_decay, double keep,
                bool maximize) {
  run_step("rprop_step", {&x, &g, &prev, &step_size},
           optim::Rprop{less, more, least, most, {weight_decay, keep, maximize}});
}

void lion_step(const optim::TensorList& x, const optim::TensorList& g,
               const optim::TensorList& exp_avg, double lr, double beta1, double beta2,
               double weight_decay, double keep, bool maximize) {
  run_step("lion_step", {&x, &g, &exp_avg},
           optim::Lion{lr, beta1, beta2, {weight_decay, keep, maximize}});
}
