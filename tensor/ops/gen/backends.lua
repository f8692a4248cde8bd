-- tensor/ops/gen/backends.lua: the namespaces that hold the kernels of backends which are built with
-- Moonlet, beside `cpu`. Each gets the declarations of all kernels but those of rows with `cpu_only`.

return { "cuda" }
