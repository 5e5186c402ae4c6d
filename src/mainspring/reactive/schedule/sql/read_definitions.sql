-- Triggers and options by fingerprint; they never change. Rides the primary key.
select fingerprint, format, tree::text as tree, options::text as options
from mainspring.definition
where fingerprint = any(%(fingerprints)s::text[])
