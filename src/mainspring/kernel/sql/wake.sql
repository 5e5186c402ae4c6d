-- Hint sleeping workers at a queue with work due now.
select mainspring.wake(queue, mainspring.now()) from unnest(%(queues)s::text[]) as q(queue)
