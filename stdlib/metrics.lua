-- stdlib/metrics.lua: ml.metrics: metrics of predictions, accumulated over batches: accuracy,
-- precision, recall, ROC curves, errors and perplexity.

-- Each part is loaded when one of its names is first used.

local options = require "moonlet.options"

return options.namespace("metrics", {}, options.late {
  ["metrics.metric"] = { "Metric" },
  ["metrics.classes"] = { "Accuracy", "Precision", "Recall", "F1", "ConfusionMatrix", "accuracy",
    "precision", "recall", "f1_score", "confusion_matrix" },
  ["metrics.ranking"] = { "AUROC", "AveragePrecision", "auroc", "average_precision", "roc_curve",
    "precision_recall_curve" },
  ["metrics.values"] = { "Mean", "MeanSquaredError", "R2", "Perplexity", "mean_squared_error",
    "r2_score", "perplexity" },
})
