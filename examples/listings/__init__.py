"""A base of classified ads for cars, kept in order by six stages (S27).

model.py        what a listing is; schema.sql is its table
catalogue.py    the catalogue of categories, which has versions
world.py        the world outside: a price model, a photo service, a video site, mail
stages.py       the six stages, and how they are declared
service.py      what users of the site do: plain SQL, no word of stages
app.py          the application that workers run: `mainspring worker listings.app:app`
demo.py         all of it in half a minute, with a killed worker and 180 days
"""
