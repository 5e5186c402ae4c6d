-- Forget breakers of which nobody has heard for a day: failures that nothing followed, and those that nobody has tried since. A scan of
-- a small table.
delete from mainspring.breaker where coalesce(until, failed_at) < mainspring.now() - interval '1 day'
