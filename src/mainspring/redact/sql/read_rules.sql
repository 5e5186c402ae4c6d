-- Which fields of which queues are hidden. Locks nothing; a row a queue that hides something.
select queue, fields, result, changed_at
from mainspring.redaction
