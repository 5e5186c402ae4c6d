"""The protocol `mainspring.v1` for other languages: `.proto` files, and what is generated from them.

`make proto` generates anew; `buf lint` and `buf breaking` are tests. This package only grows.

body            values and problems, which several services share
task_service    tasks
param_service   params
process_service processes
state_service   states of stages
stage_service   stages that live elsewhere
actor_service   actors that live elsewhere
"""
